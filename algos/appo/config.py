"""APPO and IMPALA as a run sees them: their keys. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.algos.ppo.config import PPOConfig


class APPOConfig(PPOConfig, frozen=True, kw_only=True):
    """Asynchronous PPO: V-trace (arXiv:1802.01561) for rows of older policies.

    Attributes:
        name: `appo`.
        rho_clip: Largest weight of a step's own error in value targets, and of its row in the
            policy's gradient: the ratio of the probabilities of its action now and when it was
            taken, if that is less.
        c_clip: Largest such ratio with which later errors reach back over a step; gae_lambda
            multiplies it.
        decoupled: Clip around the policy with which the learner began the ticket, and weight rows
            for the one that acted (arXiv:2110.00641); false clips around the one that acted, as PPO
            does, which holds it better at high degrees.
        drift_clip_epsilon: Distance from 1 of the ratio of an action's probabilities when the
            ticket's training begins and when it was taken, beyond which its row pushes the policy
            no further away; null for no limit. Only where decoupled is true.
        max_lag: Rows of weights that are more updates old than this when their ticket's training
            begins are left out, and counted in the metric rows_too_old; null for no limit.
    """

    learner: ClassVar[str] = "fast_core.algos.appo.learner:APPO"

    name: str = "appo"
    rho_clip: Annotated[float, Meta(gt=0)] = 1.0
    c_clip: Annotated[float, Meta(gt=0)] = 1.0
    decoupled: bool = False
    drift_clip_epsilon: Annotated[float, Meta(gt=0)] | None = 0.2
    max_lag: Annotated[int, Meta(ge=0)] | None = None


class IMPALAConfig(APPOConfig, frozen=True, kw_only=True):
    """IMPALA (arXiv:1802.01561): APPO in one pass and without a clip.

    Attributes:
        name: `impala`.
        epochs: Passes over the rows of a ticket: one. `appo` takes more.
        clip_epsilon: There is no clip: null. `appo` has one.
        drift_clip_epsilon: Nor this one: null.
        decoupled: Rows are weighted for the policy that acted: true. `appo` may clip.
    """

    name: str = "impala"
    epochs: Literal[1] = 1
    clip_epsilon: None = None
    drift_clip_epsilon: None = None
    decoupled: Literal[True] = True
