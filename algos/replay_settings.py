"""The settings that all algorithms share that learn from replay. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from algos.images import find_images
from algos.networks import Activation
from algos.observations import encoded_size
from fast_core.algorithm import Blueprint, LearnerSetup
from fast_core.config import AlgorithmConfig, Count
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec

Rate = Annotated[float, Meta(gt=0)]


class ReplaySettings(AlgorithmConfig, Blueprint, frozen=True, kw_only=True):
    """What every algorithm that learns from replay has."""

    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"

    batch_size: Annotated[Count, Meta(description="Rows of one optimizer step.")] = 256
    gamma: Annotated[float, Meta(ge=0, le=1, description="Discount per environment step.")] = 0.99
    n_step: Annotated[
        Count, Meta(description="Steps whose rewards are summed before the target's value.")
    ] = 1
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of Adam.")] = 3e-4
    adam_epsilon: Annotated[float, Meta(gt=0, description="Adam's denominator offset.")] = 1e-8
    target_rate: Annotated[
        float,
        Meta(gt=0, le=1, description="Share by which target networks move to the online ones."),
    ] = 0.005
    hidden_sizes: Annotated[
        Annotated[tuple[Count, ...], Meta(min_length=1)],
        Meta(description="Widths of the hidden layers of every network."),
    ] = (256, 256)
    network: Annotated[
        Literal["auto", "mlp"],
        Meta(
            description="mlp: hidden layers only; images are flattened. auto: the same, but images "
            "(uint8, at least 16 pixels on each side) are refused."
        ),
    ] = "auto"
    activation: Annotated[Activation, Meta(description="What follows each hidden layer.")] = "relu"
    backend: Annotated[
        Literal["auto", "numpy", "torch"],
        Meta(
            description="Library of the learner's passes, whose gradients are written by hand "
            "either way. auto: torch on other devices than the CPU and with "
            "nodes.optimizer.precision bf16; otherwise numpy, which was as fast or faster at every "
            "width tried (64 to 512, on one and two threads) and needs no torch."
        ),
    ] = "auto"
    random_warmup: Annotated[
        bool,
        Meta(description="Act uniformly at random until the first update."),
    ] = True
    nonfinite_limit: Annotated[
        Count,
        Meta(
            description="The run ends with an error after so many NaN or infinite updates in a "
            "row; each is skipped and counted."
        ),
    ] = 10

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if a learner can't be built for this run."""
        if encoded_size(environment, ()) == 0:
            raise ConfigError(
                f"algorithm.name {self.name!r} needs observations; {environment.id!r} has none."
            )
        images = find_images(environment)
        if images and self.network == "auto":
            raise ConfigError(
                f"algorithm.name {self.name!r} has no convolutions; {environment.id!r} shows "
                f"{len(images)} image(s) of {images[0].height} x {images[0].width} pixels. Set "
                "algorithm.network to mlp to flatten them, or use ppo."
            )
        if setup.compile:
            raise ConfigError(
                f"nodes.optimizer.compile must be false with algorithm.name {self.name!r}: its "
                "gradient is written by hand and has nothing to compile."
            )
        if self.backend == "numpy" and (setup.device != "cpu" or setup.precision != "fp32"):
            raise ConfigError(
                "algorithm.backend 'numpy' computes in fp32 on the CPU; nodes.optimizer has "
                f"device {setup.device!r} and precision {setup.precision!r}. Use auto or torch."
            )

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch; bf16 may make it do so too."""
        return self.backend == "torch" or device != "cpu"

    def updates_granted(self, rows: int) -> int:
        """One: `update` takes one step, with a batch of its own."""
        return 1


class BoxSettings(ReplaySettings, frozen=True, kw_only=True):
    """What every actor-critic in boxes has."""

    policy_learning_rate: Annotated[
        Rate | None, Meta(description="Step size of the policy; null: learning_rate.")
    ] = None
    critics: Annotated[
        Count, Meta(description="Value networks; the least of their values makes targets.")
    ] = 2
    policy_delay: Annotated[
        Count, Meta(description="Steps of the critics for one of the policy and the targets.")
    ] = 1


class EntropySettings(BoxSettings, frozen=True, kw_only=True):
    """What every algorithm with an entropy bonus has."""

    temperature: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["auto"],
        Meta(description="Weight of the entropy; auto keeps the entropy at target_entropy."),
    ] = "auto"
    initial_temperature: Annotated[
        float, Meta(gt=0, description="Where temperature auto begins.")
    ] = 1.0
    temperature_learning_rate: Annotated[
        Rate | None, Meta(description="Step size of the temperature; null: learning_rate.")
    ] = None
    target_entropy: Annotated[
        float | None,
        Meta(
            description="Entropy of actions measured in halves of the box's width, so that it does "
            "not depend on units; null: minus the number of action dimensions."
        ),
    ] = None
