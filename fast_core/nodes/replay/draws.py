"""Fills batch slots from the replay logs, in an order that timing can't change."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.memory import (
    NEVER,
    DrawnArrays,
    Mailbox,
    PriorityTree,
    ReplayLog,
    ReplayReader,
    SequenceArrays,
    SideColumns,
    StatsColumn,
    StatsRow,
    beta_at,
)
from fast_core.nodes.replay.batch_slots import BatchResult, FilledSlots, result_of
from fast_core.nodes.replay.moments import GrantedSteps, GroupState, Moments
from fast_core.run.columns import later_columns
from fast_core.run.mail import Carried
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.seeding import Role, sequence

Answers = tuple[BatchResult | None, ...]  # of one step, by rank
CarriedBoxes = list[list[Mailbox[Carried]]]  # of a group, by rank and place


class _Said:
    """What learners say of rows, whether each is drawn alone or many are as a sequence.

    Args:
        side: Where it is.
        before: Rows of a sequence before the one that is drawn.
    """

    def __init__(self, side: SideColumns, before: int) -> None:
        self._side, self._before = side, before

    def read(self, drawn: DrawnArrays) -> None:
        """Put it beside the rows that were drawn."""
        written = cast("NDArray[np.int64]", drawn.extra["written"])
        if not isinstance(drawn, SequenceArrays):
            self._side.read(drawn.log, drawn.row, written, drawn.extra)
            return
        log, row = self._rows(drawn.log, drawn.row, drawn.mask)
        found = {name: array[drawn.mask] for name, array in drawn.extra.items()}
        versions = written[drawn.mask]
        self._side.read(log, row, versions, found)
        written[...] = NEVER
        written[drawn.mask] = versions
        for name in self._side.names:
            drawn.extra[name][...] = 0
            drawn.extra[name][drawn.mask] = found[name]

    def write(self, answer: BatchResult) -> None:
        """Keep what was answered."""
        log, row, said = answer.log, answer.row, answer.extra
        if (mask := cast("NDArray[np.bool_] | None", said.get("mask"))) is not None:
            log, row = self._rows(log, row, mask)
            said = {name: said[name][mask] for name in self._side.names}
        self._side.write(log, row, answer.version, said)

    def _rows(
        self, log: NDArray[np.int32], row: NDArray[np.int64], mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Log and number of each row of sequences that is there."""
        sequence, at = np.nonzero(mask)
        return log[sequence], row[sequence] + at - self._before


class Draws:
    """Draws the steps of optimizers that take every step together; one alone is such a group.

    Before it draws a step it applies the priorities of exactly those that are ``replay.slots``
    or more steps back, however early later ones are there. So what is drawn depends on what the
    logs hold and on the steps before alone, and what was answered and not applied yet is a part
    of the state.
    """

    def __init__(
        self,
        plan: RunPlan,
        reader: ReplayReader,
        tree: PriorityTree | None,
        slots: Sequence[FilledSlots],
        side: SideColumns | None = None,
    ) -> None:
        """``slots`` of the group, by rank; ``tree`` is None where draws are uniform.

        ``side`` has what learners say of rows, if they do.
        """
        self._reader, self._tree, self._slots = reader, tree, tuple(slots)
        self._side = None if side is None else _Said(side, plan.replay_spec.before)
        self._ahead, self._beta = plan.config.replay.slots, plan.config.replay.beta
        self._progress = plan.config.progress
        self._drawn, self._env_steps = False, 0  # of the last step
        self._applied = 0  # steps of this part of the run
        self._carried: deque[Answers] = deque()  # of the part before

    @property
    def ready(self) -> bool:
        """Whether a step can be drawn: there is a free place for it at every optimizer."""
        return all(slots.free for slots in self._slots)

    @property
    def idle(self) -> bool:
        """Whether everything that was drawn is answered."""
        return all(slots.idle for slots in self._slots)

    @property
    def steps(self) -> int:
        """Steps drawn in this part of the run."""
        return self._slots[0].filled

    def fill(self, env_steps: int) -> bool:
        """Draw one step, with ``env_steps`` environment steps merged; it must be `ready`.

        What is due must have been applied. Nobody has the step before it is published.

        Returns:
            Whether there was anything to draw; without it the step is given out empty.
        """
        beta = beta_at(self._beta, self._progress(env_steps))
        draw, tree = self._reader.draw, self._tree
        drawn = all(draw(slots.next, tree, beta) for slots in self._slots)
        if self._side is not None and drawn:
            for slots in self._slots:
                self._side.read(slots.next)
        self._drawn, self._env_steps = drawn, env_steps
        for slots in self._slots:
            slots.fill()
        return drawn

    def publish(self) -> None:
        """Give out the step that was drawn last to those who don't have it."""
        # The first optimizer last: when it is done with a step, the others have theirs.
        for slots in reversed(self._slots):
            slots.publish(drawn=self._drawn, env_steps=self._env_steps)

    def apply_due(self) -> bool:
        """Apply the priorities that are due before the next step; whether there were any."""
        applied = False
        while len(self._carried) + self.steps - self._applied >= self._ahead:
            applied = True
            if self._carried:
                self._apply(self._carried.popleft())
            else:
                self._applied += 1
                self._apply(self._answers(self._applied))
        return applied

    def _answers(self, step: int) -> Answers:
        return tuple([slots.result(step) for slots in self._slots])

    def _apply(self, answers: Answers) -> None:
        for answer in answers:
            if answer is None:
                continue
            if self._tree is not None and len(answer.error):
                self._reader.update(self._tree, answer.log, answer.row, answer.error)
            if self._side is not None and answer.version >= 0:
                self._side.write(answer)

    def newest(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Logs and rows that the first optimizer's newest batch is of."""
        arrays = self._slots[0].newest
        return arrays.log, arrays.row

    def state(self) -> list[object]:
        """What was answered and is not applied yet, oldest first; it must be `idle`."""
        steps = range(self._applied + 1, self.steps + 1)
        answers = [*self._carried, *(self._answers(step) for step in steps)]
        return [[None if one is None else one.copied() for one in step] for step in answers]

    def load(self, state: list[list[list[Any] | None]]) -> None:
        """Continue from `state`."""
        for step in state:
            self._carried.append(tuple(None if one is None else BatchResult(*one) for one in step))

    # --- for a successor -------------------------------------------------------------------------

    def keep(self, boxes: CarriedBoxes) -> None:
        """Write what is carried where a successor finds it, the newest first.

        What is due before the first step is applied now; so is everything where other optimizers
        learn from batches of another size now.
        """
        fits = all(self._fits(step, boxes) for step in self._carried)
        while len(self._carried) >= (self._ahead if fits else 1):
            self._apply(self._carried.popleft())
        for place, step in enumerate(reversed(self._carried)):
            for answer, mine in zip(step, boxes, strict=True):
                box = mine[place]
                if answer is None:
                    box.publish(1, Carried(False))
                    continue
                box["log"][...], box["row"][...] = answer.log, answer.row
                for name, values in answer.extra.items():
                    box[name][...] = values
                if len(answer.error):
                    box["error"][...] = answer.error
                box.publish(1, Carried(len(answer.error) > 0, answer.version))

    def _fits(self, step: Answers, boxes: CarriedBoxes) -> bool:
        rows = {len(one.row) for one in step if one is not None}
        return len(step) == len(boxes) and rows <= {mine[0].rows for mine in boxes if mine}

    @property
    def progress(self) -> GroupState:
        """How far it is."""
        carried, last = len(self._carried), (self._drawn, self._env_steps)
        return GroupState(self.steps, self._applied, carried, *last)

    def go_on(self, state: GroupState, boxes: CarriedBoxes) -> None:
        """Go on from where another replay node was, and give out what it could not any more."""
        self._applied, self._drawn, self._env_steps = state.applied, state.drawn, state.env_steps
        applies = self._tree is not None or self._side is not None
        for place in reversed(range(state.carried if applies else 0)):
            answers = [mine[place] for mine in boxes]
            self._carried.append(
                tuple([result_of(box.words, box, box, "error") for box in answers])
            )
        for slots in self._slots:
            slots.go_on(state.filled)
        self.publish()


class Replay:
    """Everything that draws in a run: one stream, one tree, a group or more of optimizers.

    Attributes:
        place: How far it is with what tickets grant.
    """

    def __init__(
        self,
        plan: RunPlan,
        logs: Sequence[ReplayLog],
        slots: Sequence[FilledSlots],
        memory: RunMemory | None = None,
    ) -> None:
        """``logs`` of all shards, ``slots`` of all optimizers; ``memory`` for a successor's sake.

        Then one of `begin` and `take_over` comes next.
        """
        config, spec = plan.config, plan.replay_spec
        self._logs = tuple(logs)
        self.reader = ReplayReader(
            logs,
            steps=spec.ahead,
            window=spec.sequence,
            gamma=spec.gamma,
            frames=plan.environment.frames,
            seed=sequence(config.seed, Role.REPLAY),
        )
        self.tree: PriorityTree | None = None
        if config.replay.prioritized:
            replay, seed = config.replay, sequence(config.seed, Role.PRIORITY)
            self.tree = PriorityTree(self.reader.leaves, replay.alpha, replay.epsilon, seed)
        together = not plan.shares_async
        parts = [slots] if together else [[each] for each in slots]
        said = memory is not None and bool(later_columns(plan))
        self.side = memory.side() if memory is not None and said else None
        self.groups = [Draws(plan, self.reader, self.tree, part, self.side) for part in parts]
        self.place = GrantedSteps()
        self._moments: Moments | None = None
        self._carried: list[CarriedBoxes] = [[] for _ in self.groups]
        if memory is not None and plan.keeps_replay:
            self._moments = Moments(memory, self.reader, self.tree)
            applies = self.tree is not None or self.side is not None
            places = range(config.replay.slots - 1 if applies else 0)
            boxes = [[memory.carried(k, place) for place in places] for k in range(len(slots))]
            self._carried = [boxes] if together else [[each] for each in boxes]

    def begin(self) -> None:
        """Begin with what is there, which was loaded if the run is continued."""
        if self._moments is not None:
            for group, boxes in zip(self.groups, self._carried, strict=True):
                group.keep(boxes)
            self._take()

    def take_over(self) -> None:
        """Go on where another replay node was killed."""
        assert self._moments is not None, "nothing outlives a replay node unless the plan says so"
        self.place, states = self._moments.restore()
        for group, state, boxes in zip(self.groups, states, self._carried, strict=True):
            group.go_on(state, boxes)

    def draw(self, group: Draws, env_steps: int, place: GrantedSteps) -> bool:
        """Draw one step for a group that is `Draws.ready`, and give it out.

        Args:
            group: Whom for.
            env_steps: Environment steps merged.
            place: How far it is with what tickets grant, after that.

        Returns:
            Whether there was anything to draw; without it the step is given out empty.
        """
        if group.apply_due():
            self._take()
        drawn = group.fill(env_steps)
        self.place = place
        self._take()
        group.publish()
        return drawn

    def _take(self) -> None:
        if self._moments is not None:
            self._moments.take(self.place, [group.progress for group in self.groups])

    @property
    def idle(self) -> bool:
        """Whether everything that was drawn is answered."""
        return all(group.idle for group in self.groups)

    def write_figures(self, row: StatsRow, group: Draws | None = None) -> None:
        """Show what the reader and the tree have counted, and how old the ``group``'s batch is."""
        words = row.words
        if group is not None:
            log, first = group.newest()
            committed = np.concatenate([log.native.committed() for log in self._logs])
            words[StatsColumn.AGE_SUM] += int((committed[log] - 1 - first).sum())
            words[StatsColumn.AGED] += len(first)
        words[StatsColumn.LIVE_ROWS] = self.reader.live()
        counted = self.reader.counters() if self._moments is None else self._moments.counted
        words[StatsColumn.DRAWN], words[StatsColumn.REJECTED], words[StatsColumn.LAPPED] = counted
        if self.tree is not None:
            words[StatsColumn.REFUSED_VALUES], words[StatsColumn.REFUSED_STALE] = (
                self.tree.refused()
            )

    def state(self, *, rows: bool) -> dict[str, object]:
        """Everything here that changes; `idle` must be true.

        Args:
            rows: Whether what the logs hold is kept beside it; only then the rest says anything
                but where the random streams are.
        """
        stream = self.reader.state()
        if not rows:
            stream["positions"] = np.zeros_like(stream["positions"])
        return {
            "reader": stream,
            "tree": self.tree.state() if rows and self.tree is not None else None,
            "answers": [group.state() for group in self.groups] if rows else [],
            **({"side": self._said()} if rows and self.side is not None else {}),
        }

    def _said(self) -> dict[str, Array]:
        assert self.side is not None, "learners write columns"
        return {name: array.copy() for name, array in self.side.arrays.items()}

    def load(self, state: dict[str, object]) -> None:
        """Continue exactly from `state`; the logs must hold their rows by now."""
        if self.tree is not None and isinstance(tree := state["tree"], dict):
            self.tree.load(tree)
        if self.side is not None and isinstance(said := state.get("side"), dict):
            self.side.load(said)
        self.reader.load(cast("dict[str, object]", state["reader"]))
        answers = cast("list[list[list[list[Any] | None]]]", state["answers"])
        if len(answers) == len(self.groups):  # else other optimizers learn now
            for group, steps in zip(self.groups, answers, strict=True):
                group.load(steps)
