"""From merged rollouts to the columns that APPO trains on."""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.algos.appo.config import APPOConfig
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import Bool
from fast_core.algos.rollouts.columns import ColumnMaker, actions
from fast_core.algos.rollouts.core import Columns, Critic
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.vtrace import drifted, effective_sample_size, vtrace


class CorrectedColumnMaker(ColumnMaker):
    """A `ColumnMaker` that corrects for the policy that acted having been another one.

    What it computes belongs to a row and is there before rows are put into any order.
    """

    def __init__(
        self, settings: APPOConfig, size: int, *, shards: int, envs_per_shard: int
    ) -> None:
        super().__init__(settings, size, shards=shards, envs_per_shard=envs_per_shard)
        self._correction = settings
        self._rows_too_old = 0

    def columns(self, merged: MergedRollout, critic: Critic) -> Columns:
        """Compute targets, advantages and weights, in the order of collection."""
        settings, shape = self._correction, merged.reward.shape
        action = actions(merged)
        log_prob, value = critic.evaluate(action)
        last = critic.values(len(action), len(action) + shape[1])
        values = np.concatenate([value, last]).reshape(shape[0] + 1, shape[1])
        outcomes = self._outcomes(merged, values, critic)
        log_prob = log_prob.reshape(shape)
        log_ratio = log_prob - merged.behaviour_log_prob
        target, advantage, weight = vtrace(
            log_ratio,
            *outcomes,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
            rho_clip=settings.rho_clip,
            c_clip=settings.c_clip,
        )
        known = self._known(merged)
        if settings.decoupled:
            push = advantage
            if settings.normalize_advantage:  # what pushes is the distance from what is usual
                learned = advantage if known is None else advantage[known]
                push = advantage - learned.sum() / max(1, learned.size)
            weight[drifted(log_ratio, push, settings.drift_clip_epsilon)] = 0.0
            scalars = [log_prob, advantage, target, outcomes.value, weight]
        else:
            scalars = [merged.behaviour_log_prob, advantage, target, outcomes.value]
        metrics = {"ess": self._effective(merged, log_ratio, known)}
        if settings.max_lag is not None:
            metrics["rows_too_old"] = float(self._rows_too_old)
        return Columns(
            action,
            np.stack(scalars).reshape(len(scalars), -1),
            None if known is None else known.reshape(-1),
            metrics,
        )

    def _effective(self, merged: MergedRollout, log_ratio: F32, known: Bool | None) -> float:
        """Effective sample size, as a share of the rows: those too old are worth nothing."""
        if known is None:
            return effective_sample_size(log_ratio)
        quarantined = 0 if merged.quarantined is None else int(merged.quarantined.sum())
        return effective_sample_size(log_ratio[known], log_ratio.size - quarantined)

    def _known(self, merged: MergedRollout) -> Bool | None:
        """Which rows are learned from; None for all."""
        left_out = merged.quarantined
        limit = self._correction.max_lag
        if limit is not None and (old := merged.lag > limit).any():
            self._rows_too_old += int(np.count_nonzero(old))
            left_out = old if left_out is None else old | left_out
        return None if left_out is None else ~left_out

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        return {**super().state_dict(), "rows_too_old": self._rows_too_old}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self._rows_too_old = int(state["rows_too_old"])
