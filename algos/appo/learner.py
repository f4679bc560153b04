"""APPO's learner: PPO's, with targets that are corrected for the policy that acted."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fast_core.algos.appo.config import APPOConfig
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import Bool
from fast_core.algos.ppo.learner import PPO
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.targets import JudgedRollout, Targets
from fast_core.algos.rollouts.vtrace import drifted, effective_sample_size, vtrace


class APPO(PPO):
    """Asynchronous PPO; implements `fast_core.algorithm.Algorithm`.

    What it corrects with belongs to a row and is there before rows are put into any order.
    """

    evaluates: ClassVar[bool] = True
    _settings: APPOConfig
    _rows_too_old = 0

    def targets(self, rollout: JudgedRollout) -> Targets:
        """V-trace's targets and advantages, and weights."""
        settings, merged, log_prob = self._settings, rollout.merged, rollout.log_prob
        log_ratio = log_prob - merged.behaviour_log_prob
        target, advantage, weight = vtrace(
            log_ratio,
            *rollout.outcomes,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
            rho_clip=settings.rho_clip,
            c_clip=settings.c_clip,
        )
        known = self._known(merged)
        extra = {}
        if settings.decoupled:
            push = advantage
            if settings.normalize_advantage:  # what pushes is the distance from what is usual
                learned = advantage if known is None else advantage[known]
                push = advantage - learned.sum() / max(1, learned.size)
            weight[drifted(log_ratio, push, settings.drift_clip_epsilon)] = 0.0
            extra["weight"] = weight
        metrics = {"ess": self._effective(merged, log_ratio, known)}
        if settings.max_lag is not None:
            metrics["rows_too_old"] = float(self._rows_too_old)
        anchor = log_prob if settings.decoupled else None
        return Targets(advantage, target, anchor, extra, known, metrics)

    def _effective(self, merged: MergedRollout, log_ratio: F32, known: Bool | None) -> float:
        """Effective sample size, as a share of the rows: those too old are worth nothing."""
        if known is None:
            return effective_sample_size(log_ratio)
        quarantined = 0 if merged.quarantined is None else int(merged.quarantined.sum())
        return effective_sample_size(log_ratio[known], log_ratio.size - quarantined)

    def _known(self, merged: MergedRollout) -> Bool | None:
        """Which rows are learned from; None for all."""
        left_out = merged.quarantined
        limit = self._settings.max_lag
        if limit is not None and (old := merged.lag > limit).any():
            self._rows_too_old += int(np.count_nonzero(old))
            left_out = old if left_out is None else old | left_out
        return None if left_out is None else ~left_out

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        state: dict[str, Any] = super().state_dict()
        state["statistics"]["rows_too_old"] = self._rows_too_old
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self._rows_too_old = int(state["statistics"].get("rows_too_old", 0))
