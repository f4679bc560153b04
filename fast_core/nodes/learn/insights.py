"""What is published for those who want to know what the policy thinks."""

from __future__ import annotations

import time
from typing import cast

import numpy as np

from fast_core.algorithm import Algorithm, Array, Insightful
from fast_core.algorithm.parameters import ParameterPack
from fast_core.memory import Trace, WeightBoard
from fast_core.nodes.node import NodeContext
from fast_core.run.structures import INSIGHTS
from fast_core.run.watching import WATCHING, Watching
from fast_core.system.text import error_text

INTERVAL_NS = 1_000_000_000
LEAST_SHARE = 100  # of the time between two publications, for one that takes long


class InsightBoards:
    """Publishes the policy's parameters with those that only insights need, all of one moment.

    It does so while a viewer says that it is wanted (`Watching.insight`), when parameters have
    changed, at most once a second and for at most a hundredth of the time. Else an optimizer looks
    at the clock and a word of shared memory in each turn.

    What the learner's `insight_parameters` raises, or that it has none, is logged, and nothing is
    published any more: a page that shows a run must not end it.

    Concurrency: the first optimizer is the only writer of each viewer's ``insights``; whoever
    shows the run reads them whenever it likes. Publishing waits for nobody.
    """

    @classmethod
    def of(cls, context: NodeContext, algorithm: Algorithm) -> InsightBoards | None:
        """Those of the first optimizer; None where no viewer has yielded any."""
        families = {row.family for row in context.plan.own}
        if context.rank or not families >= {WATCHING, INSIGHTS}:
            return None
        return cls(context, algorithm)

    def __init__(self, context: NodeContext, algorithm: Algorithm) -> None:
        """Use `of`."""
        plan, memory = context.plan, context.memory
        self._algorithm, self._log = algorithm, context.log
        own = plan.own
        self._boards = [memory.at(WeightBoard, row.name) for row in own if row.family == INSIGHTS]
        viewers = [memory.at(Trace, row.name) for row in own if row.family == WATCHING]
        self._viewers = [Watching(trace.words) for trace in viewers]
        fields = plan.blueprint.insight_fields(plan.environment)
        self._policy, self._insight = memory.parameters, ParameterPack(fields, "insight")
        self._flat: Array = np.zeros((self._policy.nbytes + self._insight.nbytes) // 4, np.float32)
        self._updates: int | None = -1  # behind what is published; None: nothing is any more
        self._due_ns = 0

    def offer(self, updates: int) -> None:
        """Publish, if it is wanted and time to; ``updates`` are behind the learner's parameters."""
        if self._updates in (updates, None):
            return
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns or not any(each.insight(now_ns) for each in self._viewers):
            return
        try:
            self._publish()
        except Exception as error:  # an algorithm may raise anything
            self._log.error("no more insights are published: %s", error_text(error))
            self._updates = None
            return
        took_ns = time.monotonic_ns() - now_ns
        self._updates, self._due_ns = updates, now_ns + max(INTERVAL_NS, LEAST_SHARE * took_ns)

    def _publish(self) -> None:
        acting = self._policy.nbytes // 4
        self._policy.pack(self._algorithm.policy_parameters(), self._flat[:acting])
        more = cast(Insightful, self._algorithm).insight_parameters()
        self._insight.pack(more, self._flat[acting:])
        for board in self._boards:
            # A count of its own: an optimizer that came back may have fewer updates behind it.
            board.publish(board.published() + 1, self._flat.data)
