"""What every kind of structure of shared memory keeps (`fast_core.memory.Shared`)."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Generic, TypeVar

from fast_core.errors import ContractBroken, SegmentError
from fast_core.memory import Shared

S = TypeVar("S", bound=Shared)
Write = Callable[[S, int], object]
Read = Callable[[S], object]
_BEYOND = 64  # bytes behind a region that are looked at


def check_memory_kind(
    kind: type[S],
    shape: tuple[Any, ...],
    write: Write[S] | None = None,
    read: Read[S] | None = None,
    *,
    keeps: bool = True,
) -> None:
    """Check a kind of structure as its writer and its readers meet it.

    Its size follows from its shape; it stays within its region; what is no such structure, is cut
    short or has another shape is refused with `SegmentError`; attaching and looking write nothing;
    who attached early sees what who attaches late does; a copy of its bytes is the same; and a
    writer that dies has published all or nothing, wherever it dies, and its successor goes on.

    Where it dies: the bytes are kept as they are before every instruction of Python's in ``write``
    and what that calls, and each image is attached to. What happens within one call of a compiled
    core can't be seen so.

    Args:
        kind: The class.
        shape: What `create` and `attach` of it take; small, since the region is often copied.
        write: Publishes the ``number``-th thing, from 1 on, as its one writer; three fit.
        read: What a reader finds, as something that ``==`` compares.
        keeps: Whether what was published stays readable while the next is written.

    Raises:
        ContractBroken: It does not keep one of these.
    """
    check = _Check(kind, shape, write or _nothing, read or _nothing)
    check.layout()
    check.refusals()
    check.handles()
    if write is not None:
        check.deaths(0)
        if keeps:
            check.deaths(1)


def _nothing(*_: object) -> None:
    """For kinds of which nothing is written or read."""


class _Check(Generic[S]):
    def __init__(
        self, kind: type[S], shape: tuple[Any, ...], write: Write[S], read: Read[S]
    ) -> None:
        self._kind, self._shape, self._write, self._read = kind, shape, write, read

    def layout(self) -> None:
        """The size is one and the same, and enough."""
        sizes = [self._kind.nbytes(*self._shape) for _ in range(2)]
        if sizes[0] != sizes[1] or sizes[0] < 1:
            raise self._broken(
                f"nbytes{self._shape!r} must be the same positive integer in every process; got "
                f"{sizes[0]!r} and {sizes[1]!r}",
                "Compute it from the shape alone",
            )
        self._nbytes = sizes[0]
        whole = memoryview(mmap.mmap(-1, self._nbytes + _BEYOND))
        made = self._kind.create(whole[: self._nbytes], *self._shape)
        self._write(made, 1)
        if any(whole[self._nbytes :]):
            raise self._broken(
                f"must stay within its {self._nbytes} bytes; bytes behind them were written",
                "Let nbytes count everything that create and the writer touch",
            )

    def refusals(self) -> None:
        """What it is not is refused."""
        made, room = self._made(), self._room()
        self._refuses("create", "a region that is a byte short", room[:-1], self._shape)
        self._refuses("attach", "a region that was never created", room, self._shape)
        self._refuses("attach", "a region that is cut short", made[:-1], self._shape)
        for other in _other_shapes(self._shape):
            wide = memoryview(mmap.mmap(-1, self._nbytes + self._room_for(other)))
            self._kind.create(wide, *self._shape)
            self._refuses("attach", f"the shape {other!r}", wide, other)

    def handles(self) -> None:
        """Attaching and looking write nothing, and all see the same."""
        region = self._room()
        writer = self._kind.create(region, *self._shape)
        early = self._attach(region)
        for number in (0, 1, 2, 3):
            if number:
                self._write(writer, number)
            before = bytes(region)
            late = self._attach(region)
            said = [each.published() for each in (writer, early, late)]
            if bytes(region) != before:
                raise self._broken(
                    "attach and published must not write; the bytes changed",
                    "Only the writer writes: leave a reader's marks to a structure of its own",
                )
            if said[0] != said[1] or said[0] != said[2]:
                raise self._broken(
                    f"all who are attached must see the same; after write {number} published() "
                    f"is {said[0]!r} to the writer, {said[1]!r} to who attached early and "
                    f"{said[2]!r} to who attached late",
                    "Keep what is published in the region, and nowhere else",
                )
        self._handles_read(early, region)

    def _handles_read(self, early: S, region: memoryview) -> None:
        late = self._found(bytes(region))[1]
        if (seen := self._read(early)) != late:
            raise self._broken(
                f"a copy of its bytes must be the same structure; who attached early reads "
                f"{seen!r}, who attaches to a copy {late!r}",
                "Keep no address and nothing of this process in the region",
            )

    def deaths(self, written: int) -> None:
        """A writer that dies while it writes once more has published all of that or nothing."""
        region = self._made(range(1, written + 1))
        writer, number = self._attach(region), written + 1
        if written and self._found(bytes(region))[0] is None:
            return  # nothing of this kind is ever complete
        images = list(_images(region, lambda: self._write(writer, number)))
        before, after = (self._found(image) for image in (images[0], images[-1]))
        if before[0] is after[0] is None:
            return
        then = [self._found(image, number + 1) for image in (images[0], images[-1])]
        for image in images:
            if (found := self._found(image)) not in (before, after):
                raise self._broken(
                    f"a writer that dies must have published all or nothing; dead within write "
                    f"{number} it left {found!r} (published, read), where {before!r} stood before "
                    f"and {after!r} stands after",
                    "Store last, with release, the word that published() looks at",
                )
            if (found := self._found(image, number + 1)) not in then:
                raise self._broken(
                    f"who writes in a dead writer's place must go on; after a death within write "
                    f"{number} and write {number + 1} there is {found!r}, not {then[0]!r} or "
                    f"{then[1]!r}",
                    "Let attach take up what is published and forget what is not",
                )

    # --- regions -------------------------------------------------------------------------------

    def _room(self) -> memoryview:
        return memoryview(mmap.mmap(-1, self._nbytes))[: self._nbytes]

    def _room_for(self, other: tuple[Any, ...]) -> int:
        """What another shape takes, so that it is not refused for want of room; 0: it has none."""
        try:
            return self._kind.nbytes(*other)
        except SegmentError:
            return 0

    def _made(self, numbers: Iterable[int] = ()) -> memoryview:
        region = self._room()
        made = self._kind.create(region, *self._shape)
        for number in numbers:
            self._write(made, number)
        return region

    def _attach(self, region: memoryview) -> S:
        return self._kind.attach(region, *self._shape)

    def _found(self, image: bytes, number: int = 0) -> tuple[object, object]:
        """What is published, and what is read, in a copy; after write ``number`` if it is one."""
        region = self._room()
        region[:] = image
        try:
            attached = self._attach(region)
            if number:
                self._write(attached, number)
            return attached.published(), self._read(self._attach(region))
        except SegmentError as error:
            return SegmentError, str(error)

    def _refuses(self, method: str, what: str, region: memoryview, shape: tuple[Any, ...]) -> None:
        try:
            getattr(self._kind, method)(region, *shape)
        except SegmentError:
            return
        except Exception as error:
            raise self._broken(
                f"{method} must refuse {what} with SegmentError; it raised {error!r}",
                "Compare sizes and shape first",
            ) from error
        raise self._broken(
            f"{method} must refuse {what}; it took it",
            "Write a magic word and a digest of the shape in create, compare them in attach "
            "(fast_core.memory.header has both) and raise SegmentError",
        )

    def _broken(self, promise: str, advice: str) -> ContractBroken:
        return ContractBroken(f"{self._kind.__name__}: {promise}. {advice}.")


def _other_shapes(shape: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Shapes that differ in one place: a number one greater, or a tuple without its last."""
    for place, value in enumerate(shape):
        if isinstance(value, int):
            yield (*shape[:place], value + 1, *shape[place + 1 :])
        elif isinstance(value, tuple) and len(value) > 1:
            yield (*shape[:place], value[:-1], *shape[place + 1 :])


def _images(region: memoryview, body: Callable[[], object]) -> Iterator[bytes]:
    """The bytes before, after, and between the instructions of ``body``; each once, in order."""
    found = {bytes(region): None}

    def look(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        found[bytes(region)] = None
        return look

    tracer = sys.gettrace()
    sys.settrace(look)
    try:
        body()
    finally:
        sys.settrace(tracer)
    found[bytes(region)] = None
    yield from found
