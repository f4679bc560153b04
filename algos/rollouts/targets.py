"""From the rollouts of a ticket to what its steps are learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import Bool
from fast_core.algos.rollouts.core import Columns, Critic
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.errors import ConfigError


class Outcomes(NamedTuple):
    """What steps led to, each ``[T, N]``, as `returns` and `vtrace` take it.

    Attributes:
        reward: Of the step; of a quarantined one what is expected of it.
        value: Of what was observed before it.
        next_value: Of what it led to: the next row, or the final observation of an episode that
            was cut off.
        terminated: Nothing follows: the task ended, or the step is quarantined.
        truncated: What follows is of another episode.
    """

    reward: F32
    value: F32
    next_value: F32
    terminated: Bool
    truncated: Bool


@dataclass(frozen=True)
class Targets:
    """What steps are learned from, each ``[T, N]`` float32.

    Attributes:
        advantage: How much better than expected each step was.
        target: What the value should say.
        old_log_prob: What ratios are relative to; None: the log-probability under the policy that
            acted.
        extra: What the loss needs besides, by name.
        known: Which rows are learned from, bool; None: all but those that are quarantined.
        metrics: What making them has shown, by name.
    """

    advantage: F32
    target: F32
    old_log_prob: F32 | None = None
    extra: Mapping[str, F32] = field(default_factory=dict)
    known: Bool | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class JudgedRollout:
    """The ``T`` steps of all ``N`` environments of a ticket, with what the networks say of them.

    Args:
        merged: The steps, as networks see them.
        critic: Knows their observations.
        reward: ``[T, N]``, scaled as values are.
        evaluates: Whether ``log_prob`` is needed.

    Attributes:
        merged: The steps: actions, log-probabilities, ends and versions, as they were collected.
        outcomes: What the steps led to.
    """

    def __init__(
        self, merged: MergedRollout, critic: Critic, reward: F32, *, evaluates: bool
    ) -> None:
        self.merged, self._critic = merged, critic
        self._log_prob: F32 | None = None
        rows, envs = merged.reward.size, merged.reward.shape[1]
        if evaluates:
            log_prob, value = critic.evaluate(actions(merged))
            self._log_prob = log_prob.reshape(merged.reward.shape)
            values = np.concatenate([value, critic.values(rows, rows + envs)])
        else:
            values = critic.values(0, rows + envs)
        self.outcomes = self._outcomes(reward, values, "value")

    @property
    def log_prob(self) -> F32:
        """``[T, N]``, of the actions under the policy that learns.

        Raises:
            ConfigError: It was not asked for.
        """
        if self._log_prob is None:
            raise ConfigError(
                "JudgedRollout.log_prob costs a pass through the networks and is there only for "
                "classes that ask for it. Write evaluates = True into yours."
            )
        return self._log_prob

    def outcomes_of(self, name: str, reward: F32) -> Outcomes:
        """What steps led to by the words of another network that judges.

        Args:
            name: The network's.
            reward: ``[T, N]``, what it expects the sum of.
        """
        rows, envs = self.merged.reward.size, self.merged.reward.shape[1]
        return self._outcomes(reward, self._critic.values(0, rows + envs, name), name)

    def _outcomes(self, reward: F32, values: F32, name: str) -> Outcomes:
        merged = self.merged
        grid = values.reshape(len(merged.reward) + 1, -1)
        value, next_value = grid[:-1], grid[1:].copy()
        if len(merged.final_step):
            final_values = self._critic.values(values.size, len(merged.obs), name)
            next_value[merged.final_step, merged.final_column] = final_values
        terminated = merged.terminated
        if merged.quarantined is not None:
            # As good as expected, and the end: nothing of it reaches its own row or those before.
            reward = np.where(merged.quarantined, value, reward)
            terminated = terminated | merged.quarantined
        return Outcomes(reward, value, next_value, terminated, merged.truncated)

    def columns(self, targets: Targets) -> Columns:
        """All that a ticket is trained on, in the order of collection."""
        merged, known = self.merged, targets.known
        if known is None and merged.quarantined is not None:
            known = ~merged.quarantined
        anchor = targets.old_log_prob
        anchor = merged.behaviour_log_prob if anchor is None else anchor
        usual = [anchor, targets.advantage, targets.target, self.outcomes.value]
        scalars = np.stack([*usual, *targets.extra.values()])
        return Columns(
            actions(merged),
            scalars.reshape(len(scalars), -1),
            None if known is None else known.reshape(-1),
            targets.metrics,
            tuple(targets.extra),
        )


def actions(merged: MergedRollout) -> Array:
    """The actions of a ticket, one row for each, as `Columns` has them."""
    rows = merged.reward.size
    action = merged.action.reshape(rows, *merged.action.shape[2:])
    return action.reshape(rows, -1) if action.ndim > 1 or action.dtype == np.float32 else action
