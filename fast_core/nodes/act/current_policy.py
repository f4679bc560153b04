"""A policy and the newest weights for it, in whichever node acts."""

from __future__ import annotations

from fast_core.algorithm import PolicySetup
from fast_core.errors import FastLoopError
from fast_core.memory import StatsColumn
from fast_core.nodes.node import NodeContext
from fast_core.policy.checked import make_policy


class CurrentPolicy:
    """The policy of one node.

    Attributes:
        policy: What acts; only after `refresh`.
        version: Version of its weights, -1 before the first.
    """

    def __init__(self, context: NodeContext, setup: PolicySetup) -> None:
        """Build the policy; it has no weights yet."""
        plan, memory = context.plan, context.memory
        self.policy = make_policy(plan.blueprint, plan.environment, setup)
        self.version = -1
        self._board = memory.weights()
        self._flat = memory.parameters.empty()
        self._views = memory.parameters.views(self._flat)
        self._words = context.stats.words

    def refresh(self, min_version: int) -> None:
        """Take the newest published weights.

        Raises:
            FastLoopError: They are older than ``min_version``.
        """
        version = self._board.read_into(self._flat.data, newer_than=self.version)
        if version > self.version:
            self.version = version
            self.policy.load(self._views)
            self._words[StatsColumn.VERSION] = version
        if self.version < min_version:
            raise FastLoopError(
                f"the rollout needs weights of version {min_version} or newer, the newest "
                f"published are {self.version}; an optimizer reports before it publishes"
            )
