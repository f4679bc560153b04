"""A policy and the newest weights for it, in whichever node acts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, PolicySetup
from fast_core.envs.playing.runner import Act
from fast_core.errors import FastLoopError
from fast_core.memory import StatsColumn
from fast_core.nodes.node import NodeContext, NodeState
from fast_core.policy.checked import make_policy

_STATE = int(StatsColumn.STATE)


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
            shown, self._words[_STATE] = self._words[_STATE], NodeState.ACTING
            self.policy.load(self._views)
            self._words[_STATE] = shown
            self._words[StatsColumn.VERSION] = version
        if self.version < min_version:
            raise FastLoopError(
                f"the rollout needs weights of version {min_version} or newer, the newest "
                f"published are {self.version}; an optimizer reports before it publishes"
            )


def shown(actor: Act, context: NodeContext) -> Act:
    """``actor``; while it acts, the state of its node says so, and its works when it has."""
    words, works = context.stats.words, context.memory.works(context.name)

    def act(obs: Array, began: NDArray[np.bool_]) -> Array:
        before, words[_STATE] = words[_STATE], NodeState.ACTING
        actions = actor(obs, began)
        works[NodeState.ACTING] += 1
        words[_STATE] = before
        return actions

    return act
