"""One run's shared memory in one process, made and attached from the table of its structures.

Everything is in a single segment. The layout is computed from the plan, so the launcher and
every node agree on it without exchanging offsets; the segment's header proves that they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from difflib import get_close_matches
from typing import Any, TypeVar

from fast_core.algorithm.parameters import ParameterPack
from fast_core.errors import SegmentError
from fast_core.memory import (
    Arena,
    Doorbell,
    EvaluationSlot,
    KeptPriorities,
    Layout,
    Mailbox,
    ReplayLog,
    Ring,
    RolloutStore,
    Segment,
    Shared,
    SideColumns,
    StatsRow,
    Structure,
    Trace,
    WeightBoard,
)
from fast_core.run import mail
from fast_core.run.needs import arithmetic, fitting, private_nbytes
from fast_core.run.plan import RunPlan
from fast_core.run.structures import GIVEN, keyed, structures

S = TypeVar("S", bound=Shared)


def layout_of(table: Iterable[Structure]) -> Layout:
    """Where everything lies."""
    layout = Layout()
    for row in table:
        layout.add(row.name, row.nbytes)
    return layout


def check_memory(plan: RunPlan) -> None:
    """See whether the memory of a run would fit, without reserving it.

    Raises:
        SegmentError: It would not; the message has the arithmetic.
    """
    layout = layout_of(structures(plan))
    with _explained(plan, layout):
        Segment.check(layout.nbytes, plan.config.memory.backing, private_nbytes(plan))


@contextmanager
def _explained(plan: RunPlan, layout: Layout) -> Iterator[None]:
    try:
        yield
    except SegmentError as error:
        text = f"{error} {arithmetic(plan, layout)}{fitting(plan, layout)}"
        raise SegmentError(text) from error


class RunMemory:
    """The structures of one run in one process."""

    def __init__(self, plan: RunPlan, table: Sequence[Structure], arena: Arena) -> None:
        """Use `create` or `attach`."""
        self.segment, self._arena = arena.segment, arena
        self._given: frozenset[str] | None = None  # None: everything, as the launcher has it
        self._who = ""
        self._table = {row.name: row for row in table}
        self._key = plan.key
        self.parameters = ParameterPack(plan.blueprint.policy_fields(plan.environment))

    @classmethod
    def create(cls, plan: RunPlan, between: Callable[[], None] | None = None) -> RunMemory:
        """Make the segment, reserve its memory and initialise every structure.

        ``between`` is called now and then; what it raises ends the attempt.

        Raises:
            SegmentError: It does not fit; the message has the arithmetic.
        """
        table = tuple(structures(plan))
        layout = layout_of(table)
        with _explained(plan, layout):
            segment = Segment.create(
                layout.nbytes,
                backing=plan.config.memory.backing,
                between=between,
                private=private_nbytes(plan),
            )
        memory = cls(plan, table, Arena.create(layout, segment))
        for row in table:
            row.kind.create(memory._arena.region(row.name), *row.shape)
        segment.touch()
        return memory

    @classmethod
    def attach(cls, plan: RunPlan, descriptor: int) -> RunMemory:
        """Map the launcher's segment; ``descriptor`` stays the caller's to close."""
        table = tuple(structures(plan))
        layout = layout_of(table)
        segment = Segment.attach(descriptor, layout.nbytes)
        return cls(plan, table, Arena.attach(layout, segment))

    def seen_by(self, who: str, families: frozenset[str]) -> RunMemory:
        """The same memory for a node of class ``who``, which attaches to these families alone."""
        seen = copy(self)
        seen._who, seen._given = who, families | GIVEN
        return seen

    def of(self, plan: RunPlan) -> RunMemory:
        """The same memory as one of several learners has it, whose plan this is."""
        if plan.key == self._key:
            return self
        seen = copy(self)
        seen._key = plan.key
        seen.parameters = ParameterPack(plan.blueprint.policy_fields(plan.environment))
        return seen

    def __contains__(self, name: str) -> bool:
        """Whether the run's table has a structure of this name."""
        return name in self._table

    def at(self, kind: type[S], name: str, **options: Any) -> S:
        """The structure ``name`` of the run's table, attached to.

        Raises:
            SegmentError: There is none, or it is of another kind, or the node did not declare it.
        """
        row = self._table.get(name)
        if row is None:
            near = get_close_matches(name, self._table, 1)
            meant = f". Did you mean {near[0]!r}?" if near else ""
            raise SegmentError(f"this run has no structure {name!r}{meant}")
        if self._given is not None and self._given.isdisjoint((name, row.family)):
            raise SegmentError(
                f"{self._who} attaches to {name!r}, which it does not declare. Add {row.family!r} "
                f"to the `reads` of {self._who}, or to its `writes` if it writes it"
            )
        if row.kind is not kind:
            raise SegmentError(
                f"{name!r} is a {row.kind.__name__} in the table of this run; asked for a "
                f"{kind.__name__}"
            )
        return kind.attach(self._arena.region(name), *row.shape, **options)

    def doorbell(self, node: str) -> Doorbell:
        """The one wait point of a node."""
        return self.at(Doorbell, f"doorbell/{node}")

    def spans(self, node: str) -> Ring:
        """States that a node has left, with their times."""
        return self.at(Ring, f"spans/{node}")

    def stats(self, node: str) -> StatsRow:
        """The counters of a node."""
        return StatsRow(self.at(Trace, f"stats/{node}").words)

    def all_stats(self) -> dict[str, StatsRow]:
        """The counters of every node, by its name."""
        rows = [row for row in self._table.values() if row.family == "stats"]
        return {row.writer: self.stats(row.writer) for row in rows}

    def pulse(self, node: str) -> memoryview:
        """The word in which a node's `Pulse` counts; 0 before it begins."""
        return self.at(Trace, f"pulse/{node}").words

    def works(self, node: str) -> memoryview:
        """How often a node has come back from work in each state, in this process of it."""
        return self.at(Trace, f"works/{node}").words

    def weights(self) -> WeightBoard:
        """Newest published policy parameters."""
        return self.at(WeightBoard, keyed("weights", self._key))

    def evaluation(self) -> EvaluationSlot:
        """The snapshot that is being evaluated."""
        return self.at(EvaluationSlot, "evaluation")

    def rollouts(self, shard: int) -> RolloutStore:
        """The rollout slots of a shard."""
        return self.at(RolloutStore, f"rollouts/{shard}")

    def replay_log(self, shard: int, *, continues: bool = False) -> ReplayLog:
        """The replay logs of a shard's environments.

        ``continues`` is for a writer that goes on exactly where the rows end.
        """
        return self.at(ReplayLog, f"replay/{shard}", continues=continues)

    def batch(self, optimizer: int, slot: int) -> Mailbox[mail.Drawn]:
        """A batch slot of an optimizer: what the replay node drew.

        Its number is that of the batch among those of this optimizer and this part of the run,
        from 1; batch ``n`` lies in slot ``(n - 1) % replay.slots``, and the slot is the
        optimizer's until the result bears the same number.
        """
        return self.at(Mailbox, f"batches/{optimizer}.{slot}")

    def result(self, optimizer: int, slot: int) -> Mailbox[mail.Learnt]:
        """What the optimizer says of the batch in ``slot`` when it is done with it."""
        return self.at(Mailbox, f"results/{optimizer}.{slot}")

    def moment(self, box: int) -> Mailbox[mail.Moment]:
        """One of the two places for moments of the replay node; the greater number counts."""
        return self.at(Mailbox, f"moments/{box}")

    def kept_priorities(self) -> KeptPriorities:
        """Priorities that outlive the replay node."""
        return self.at(KeptPriorities, "priorities")

    def side(self) -> SideColumns:
        """What the learner has said of rows."""
        return self.at(SideColumns, "side")

    def carried(self, optimizer: int, place: int) -> Mailbox[mail.Carried]:
        """An answer that a checkpoint held; those of the newest step have place 0."""
        return self.at(Mailbox, f"carried/{optimizer}.{place}")

    def gradient(self, optimizer: int, box: int = 0) -> Mailbox[mail.Gradient]:
        """The gradient of one of several optimizers, in one of its `gradient_boxes`."""
        return self.at(Mailbox, f"gradients/{optimizer}.{box}")

    def base(self, optimizer: int) -> Mailbox[mail.Base]:
        """Which steps the parameters have behind them that an optimizer differentiates at."""
        return self.at(Mailbox, f"bases/{optimizer}")

    def applied(self, optimizer: int) -> Mailbox[mail.Applied]:
        """Which gradient of an optimizer the first one is done with."""
        return self.at(Mailbox, f"applied/{optimizer}")

    def meeting(self) -> Mailbox[mail.Meeting]:
        """Where optimizers meet that average."""
        return self.at(Mailbox, "meeting")

    def networks(self) -> WeightBoard:
        """All parameters and targets of the first of several optimizers that don't average."""
        return self.at(WeightBoard, "networks")

    def progress(self, shard: int, group: int = 0) -> memoryview:
        """Where each environment of a group is, as 64-bit words; see `ProgressWord`."""
        return self.at(Trace, f"progress/{shard}.{group}").words

    def frames(self, tile: int) -> WeightBoard:
        """The newest frame of a tile, as `frame_layout` has it; numbered from 0."""
        return self.at(WeightBoard, f"frames/{tile}")

    def request(self, shard: int, group: int) -> Mailbox[mail.Request]:
        """What a group of environments asks its policy node."""
        return self.at(Mailbox, f"requests/{shard}.{group}")

    def reply(self, shard: int, group: int) -> Mailbox[mail.Reply]:
        """What the policy node answers."""
        return self.at(Mailbox, f"replies/{shard}.{group}")

    def close(self) -> None:
        """Let go of the mapping; views that still live keep it until they are gone."""
        self.segment.close()
