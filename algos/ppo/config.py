"""PPO as a run sees it: the keys that it has beside those of every actor-critic."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.algos.nets.adam import Schedule
from fast_core.algos.rollouts.config import ActorCriticConfig


class PPOConfig(ActorCriticConfig, frozen=True, kw_only=True):
    """Proximal policy optimisation with a clipped surrogate (arXiv:1707.06347).

    Attributes:
        name: `ppo`.
        clip_epsilon: Distance of the probability ratio from 1 that is rewarded; null for no limit.
        clip_schedule: linear lets clip_epsilon fall to 0 at horizon_env_steps.
        value_clip_epsilon: Largest useful change of a value in one round; null for no limit.
        value_coef: Weight of the mean squared value error.
        entropy_coef: Weight of the entropy bonus.
        epochs: Passes over the rows of a ticket.
        minibatch_size: Rows of one optimizer step; the last of an epoch may have fewer.
        normalize_advantage: Centre and scale advantages within each minibatch of 2 or more.
        target_kl: Stop the round's remaining updates once a minibatch's approximate KL divergence
            exceeds 1.5 times this; null never stops.
        gradient: explicit: written by hand in NumPy, several times faster for small networks and
            free of torch. autograd: torch, also used wherever there are convolutions or a network
            of your own, the device is not the CPU, or nodes.optimizer has compile or precision bf16
            set.
    """

    learner: ClassVar[str] = "fast_core.algos.ppo.learner:PPO"
    changeable: ClassVar[tuple[str, ...]] = (
        *ActorCriticConfig.changeable,
        "clip_epsilon",
        "value_clip_epsilon",
        "value_coef",
        "entropy_coef",
        "target_kl",
    )

    name: str = "ppo"
    clip_epsilon: Annotated[float, Meta(gt=0)] | None = 0.2
    clip_schedule: Schedule = "constant"
    value_clip_epsilon: Annotated[float, Meta(gt=0)] | None = None
    value_coef: Annotated[float, Meta(ge=0)] = 0.5
    entropy_coef: Annotated[float, Meta(ge=0)] = 0.0
    epochs: Annotated[int, Meta(ge=1)] = 10
    minibatch_size: Annotated[int, Meta(ge=1)] = 64
    normalize_advantage: bool = True
    target_kl: Annotated[float, Meta(gt=0)] | None = None
    gradient: Literal["explicit", "autograd"] = "explicit"

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch; with auto it may see images and do so too."""
        return self.policy_uses_torch() or self.gradient == "autograd" or device != "cpu" or compile
