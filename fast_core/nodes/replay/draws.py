"""Fills batch slots from the replay logs, in an order that timing can't change."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fast_core.memory import PriorityTree, ReplayLog, ReplayReader, StatsColumn, StatsRow, beta_at
from fast_core.nodes.replay.batch_slots import FilledSlots, Result
from fast_core.run.plan import RunPlan
from fast_core.seeding import Role, sequence

Answers = tuple[Result | None, ...]  # of one step, by rank


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
    ) -> None:
        """``slots`` of the group, by rank; ``tree`` is None where draws are uniform."""
        self._reader, self._tree, self._slots = reader, tree, tuple(slots)
        self._ahead, self._beta = plan.config.replay.slots, plan.config.replay.beta
        self._progress = plan.config.progress
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

    def draw(self, env_steps: int) -> bool:
        """Draw one step, with ``env_steps`` environment steps merged; it must be `ready`.

        Returns:
            Whether there was anything to draw; without it the step is given out empty.
        """
        self._apply_due()
        beta = beta_at(self._beta, self._progress(env_steps))
        draw, tree = self._reader.draw, self._tree
        drawn = all(draw(slots.next, tree, beta) for slots in self._slots)
        # The first optimizer last: when it is done with a step, the others have theirs.
        for slots in reversed(self._slots):
            slots.publish(drawn=drawn, env_steps=env_steps)
        return drawn

    def _apply_due(self) -> None:
        while len(self._carried) + self.steps - self._applied >= self._ahead:
            if self._carried:
                self._apply(self._carried.popleft())
            else:
                self._applied += 1
                self._apply(self._answers(self._applied))

    def _answers(self, step: int) -> Answers:
        return tuple([slots.result(step) for slots in self._slots])

    def _apply(self, answers: Answers) -> None:
        if self._tree is None:
            return
        for answer in answers:
            if answer is not None:
                self._reader.update(self._tree, answer.log, answer.row, answer.error)

    def newest(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Logs and rows that the first optimizer's newest batch is of."""
        arrays = self._slots[0].newest
        return arrays.log, arrays.row

    def state(self) -> list[object]:
        """What was answered and is not applied yet, oldest first; it must be `idle`."""
        steps = range(self._applied + 1, self.steps + 1)
        answers = [*self._carried, *(self._answers(step) for step in steps)]
        return [[None if one is None else one.copied() for one in step] for step in answers]

    def load(self, state: list[list[list[np.ndarray] | None]]) -> None:
        """Continue from `state`."""
        for step in state:
            self._carried.append(tuple(None if one is None else Result(*one) for one in step))


class Replay:
    """Everything that draws in a run: one stream, one tree, a group or more of optimizers."""

    def __init__(
        self, plan: RunPlan, logs: Sequence[ReplayLog], slots: Sequence[FilledSlots]
    ) -> None:
        """``logs`` of all shards, ``slots`` of all optimizers."""
        config, spec = plan.config, plan.replay_spec
        self._logs = tuple(logs)
        self.reader = ReplayReader(
            logs,
            steps=spec.n_step,
            gamma=spec.gamma,
            frames=plan.environment.frames,
            seed=sequence(config.seed, Role.REPLAY),
        )
        self.tree: PriorityTree | None = None
        if config.replay.prioritized:
            replay, seed = config.replay, sequence(config.seed, Role.PRIORITY)
            self.tree = PriorityTree(self.reader.leaves, replay.alpha, replay.epsilon, seed)
        together = plan.optimizers == 1 or plan.averages
        parts = [slots] if together else [[each] for each in slots]
        self.groups = [Draws(plan, self.reader, self.tree, part) for part in parts]

    @property
    def idle(self) -> bool:
        """Whether everything that was drawn is answered."""
        return all(group.idle for group in self.groups)

    def write_figures(self, row: StatsRow, group: Draws | None = None) -> None:
        """Show what the reader and the tree have counted, and how old the ``group``'s batch is."""
        words, figures = row.words, self.reader.statistics()
        if group is not None:
            log, first = group.newest()
            committed = np.concatenate([log.native.committed() for log in self._logs])
            words[StatsColumn.AGE_SUM] += int((committed[log] - 1 - first).sum())
            words[StatsColumn.AGED] += len(first)
        words[StatsColumn.LIVE_ROWS] = figures.live
        words[StatsColumn.DRAWN] = figures.drawn
        words[StatsColumn.REJECTED] = figures.rejected
        words[StatsColumn.LAPPED] = figures.lapped
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
        }

    def load(self, state: dict[str, object]) -> None:
        """Continue exactly from `state`; the logs must hold their rows by now."""
        if self.tree is not None and isinstance(tree := state["tree"], dict):
            self.tree.load(tree)
        self.reader.load(cast("dict[str, object]", state["reader"]))
        answers = cast("list[list[list[list[np.ndarray] | None]]]", state["answers"])
        if len(answers) == len(self.groups):  # else other optimizers learn now
            for group, steps in zip(self.groups, answers, strict=True):
                group.load(steps)
