"""TD3 and DDPG as a run sees them. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algorithm import Policy, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.box_blueprint import BoxBlueprint
from fast_core.config import Count


class TD3Config(BoxBlueprint, frozen=True, kw_only=True):
    """Twin delayed deep deterministic policy gradient (arXiv:1802.09477).

    Attributes:
        name: `td3`.
        learning_rate: Step size of Adam.
        policy_delay: Steps of the critics for one of the policy and the targets.
        exploration_noise: Deviation of the noise on actions, in halves of the box's width.
        smoothing_noise: Deviation of the noise on the actions of targets.
        smoothing_limit: Limit of that noise.
    """

    numpy_learner: ClassVar[str] = "fast_core.algos.replay.td3:TD3"
    torch_learner: ClassVar[str] = "fast_core.algos.replay.torch_box:TorchTD3"

    name: str = "td3"
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-3
    policy_delay: Count = 2
    exploration_noise: Annotated[float, Meta(ge=0)] = 0.1
    smoothing_noise: Annotated[float, Meta(ge=0)] = 0.2
    smoothing_limit: Annotated[float, Meta(ge=0)] = 0.5

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from fast_core.algos.replay.policies import DeterministicPolicy

        actor = self.actor(environment, setup)
        return DeterministicPolicy(actor, environment, self.exploration_noise)


class DDPGConfig(TD3Config, frozen=True, kw_only=True):
    """Deep deterministic policy gradient (arXiv:1509.02971): TD3 without its three additions.

    Attributes:
        name: `ddpg`.
        critics: Value networks; the least of their values makes targets.
        policy_delay: Steps of the critics for one of the policy and the targets.
        smoothing_noise: Deviation of the noise on the actions of targets.
    """

    name: str = "ddpg"
    critics: Count = 1
    policy_delay: Count = 1
    smoothing_noise: Annotated[float, Meta(ge=0)] = 0.0
