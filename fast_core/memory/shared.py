"""What all structures of shared memory have in common, and the rows of a run's table of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

# Who writes a structure, besides nodes by their names; no node's name has a space in it.
ANYONE = "anyone"  # doorbells, and they alone
EXECUTOR = "whoever executes the shard"
ACTOR = "whoever acts for the shard"
STAGES = "the user's stages, each from its `Transform` to its `Transformed`"


class Shared(Protocol):
    """A kind of structure. One tuple, its shape, sizes, creates and attaches it alike.

    Whoever attaches with another shape than it was created with is refused (`SegmentError`).
    """

    @staticmethod
    def nbytes(*shape: Any, **options: Any) -> int:
        """Bytes of the region."""
        ...

    @classmethod
    def create(cls, memory: memoryview, *shape: Any, **options: Any) -> Self:
        """Make an empty one in ``memory``, aligned to 64, and attach to it."""
        ...

    @classmethod
    def attach(cls, memory: memoryview, *shape: Any, **options: Any) -> Self:
        """Attach to the one in ``memory``."""
        ...

    def published(self) -> int | tuple[int, ...] | None:
        """What of it is complete now, in the kind's own counting; None where nothing ever is."""
        ...


class Structure(NamedTuple):
    """One structure of a run.

    Attributes:
        name: ``family`` or ``family/index``, the only one of that name in the run.
        kind: Its class.
        shape: What `Shared.create` and `Shared.attach` of that class take.
        writer: Who writes it: a node's name, `EXECUTOR`, or `ANYONE`. A user's node leaves it out
            and is the writer.
        left_by_death: What a reader finds when the writer dies at any point.
        lent: Who else writes it, one at a time, while a command of the scheduler's lends it.
    """

    name: str
    kind: type[Shared]
    shape: tuple[Any, ...] = ()
    writer: str = ""
    left_by_death: str = ""
    lent: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """What nodes declare in ``reads`` and ``writes``."""
        return self.name.partition("/")[0]

    @property
    def nbytes(self) -> int:
        """Bytes of its region."""
        return self.kind.nbytes(*self.shape)
