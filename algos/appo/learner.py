"""APPO's learner: PPO's, with columns that are corrected for the policy that acted."""

from __future__ import annotations

from fast_core.algos.appo.columns import CorrectedColumnMaker
from fast_core.algos.ppo.learner import PPO


class APPO(PPO):
    """Asynchronous PPO; implements `fast_core.algorithm.Algorithm`."""

    column_maker = CorrectedColumnMaker
