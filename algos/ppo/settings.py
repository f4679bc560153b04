"""The settings of PPO; the configuration reference is made from them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from fast_core.algos.nets.networks import Activation
from fast_core.config import AlgorithmConfig

Schedule = Literal["constant", "linear"]
Positive = Annotated[int, Meta(ge=1)]


class PPOSettings(AlgorithmConfig, frozen=True, kw_only=True):
    """Proximal policy optimisation with a clipped surrogate.

    Source: Schulman et al. 2017, arXiv:1707.06347.
    """

    name: Annotated[str, Meta(description="`ppo`.")] = "ppo"
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of Adam.")] = 3e-4
    learning_rate_schedule: Annotated[
        Schedule, Meta(description="linear falls to 0 at horizon_env_steps.")
    ] = "constant"
    adam_epsilon: Annotated[float, Meta(gt=0, description="Adam's denominator offset.")] = 1e-5
    gamma: Annotated[float, Meta(ge=0, le=1, description="Discount per environment step.")] = 0.99
    gae_lambda: Annotated[
        float, Meta(ge=0, le=1, description="Decay of generalised advantage estimation.")
    ] = 0.95
    clip_epsilon: Annotated[
        float, Meta(gt=0, description="Distance of the probability ratio from 1 that is rewarded.")
    ] = 0.2
    clip_schedule: Annotated[
        Schedule, Meta(description="linear lets clip_epsilon fall to 0 at horizon_env_steps.")
    ] = "constant"
    value_clip_epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Largest useful change of a value in one round; null for no limit."),
    ] = None
    value_coef: Annotated[
        float, Meta(ge=0, description="Weight of the mean squared value error.")
    ] = 0.5
    entropy_coef: Annotated[float, Meta(ge=0, description="Weight of the entropy bonus.")] = 0.0
    max_grad_norm: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Longest gradient, over all parameters; null for no limit."),
    ] = 0.5
    epochs: Annotated[int, Meta(ge=1, description="Passes over the rows of a ticket.")] = 10
    minibatch_size: Annotated[
        int,
        Meta(ge=1, description="Rows of one optimizer step; the last of an epoch may have fewer."),
    ] = 64
    normalize_advantage: Annotated[
        bool, Meta(description="Centre and scale advantages within each minibatch of 2 or more.")
    ] = True
    target_kl: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Stop the round's remaining updates once a minibatch's approximate KL "
            "divergence exceeds 1.5 times this; null never stops."
        ),
    ] = None
    normalize_observations: Annotated[
        bool,
        Meta(
            description="Scale the numbers of observations by running mean and variance; images "
            "are scaled by 1/255 always."
        ),
    ] = True
    normalize_rewards: Annotated[
        bool, Meta(description="Scale rewards by the running deviation of the discounted return.")
    ] = True
    observation_clip: Annotated[
        float, Meta(gt=0, description="Limit of a normalised observation.")
    ] = 10.0
    reward_clip: Annotated[float, Meta(gt=0, description="Limit of a normalised reward.")] = 10.0
    normalize_actions: Annotated[
        bool,
        Meta(
            description="Act within [-1, 1], stretched over boxes with finite bounds, so that "
            "nothing depends on the unit of actions; false acts in the environment's units, in "
            "which initial_log_std is to be set then."
        ),
    ] = False
    network: Annotated[
        Literal["auto", "mlp", "nature_cnn", "residual_cnn"],
        Meta(
            description="mlp: hidden layers only; images are flattened. nature_cnn: three "
            "convolutions and 512 features for each image of at least 36 pixels (Mnih et al. "
            "2015). residual_cnn: 15 convolutions and 256 features, from 16 pixels on "
            "(Espeholt et al. 2018). auto: nature_cnn where there are images, residual_cnn "
            "where one is too small for it, otherwise mlp."
        ),
    ] = "auto"
    hidden_sizes: Annotated[
        Annotated[tuple[Positive, ...], Meta(min_length=1)] | None,
        Meta(
            description="Widths of the hidden layers, which take the features of images and the "
            "other numbers of an observation together; null: 64, 64, or none where there are "
            "convolutions."
        ),
    ] = None
    activation: Annotated[
        Activation, Meta(description="What follows each hidden layer; convolutions have relu.")
    ] = "tanh"
    shared_torso: Annotated[
        bool | None,
        Meta(
            description="One torso under policy and value, instead of one for each; null: only "
            "where there are convolutions."
        ),
    ] = None
    recurrent: Annotated[
        Literal["none", "gru", "lstm"],
        Meta(
            description="A layer that remembers, between the hidden layers, which are shared then, "
            "and both heads. minibatch_size must be a multiple of rollout.steps."
        ),
    ] = "none"
    recurrent_size: Annotated[Positive, Meta(description="Width of the recurrent layer.")] = 64
    initial_log_std: Annotated[
        float, Meta(description="First log standard deviation of continuous actions.")
    ] = 0.0
    gradient: Annotated[
        Literal["explicit", "autograd"],
        Meta(
            description="explicit: written by hand in NumPy, several times faster for small "
            "networks and free of torch. autograd: torch, also used wherever there are "
            "convolutions, the device is not the CPU, or nodes.optimizer has compile or precision "
            "bf16 set."
        ),
    ] = "explicit"
    nonfinite_limit: Annotated[
        int,
        Meta(
            ge=1,
            description="The run ends with an error after so many NaN or infinite updates in "
            "a row; each is skipped and counted. A round with such data counts as one.",
        ),
    ] = 10

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps of one ticket of ``rows`` rows."""
        return self.epochs * -(-rows // self.minibatch_size)
