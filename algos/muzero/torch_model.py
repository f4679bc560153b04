"""The three networks in torch: as they learn, and as policies compute them on any device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.muzero.config import MuZeroConfig
from fast_core.algos.muzero.model import ModelShape, Root, Step
from fast_core.algos.muzero.torch_support import TorchSupport
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.policy_inputs import TorchInputs
from fast_core.algos.replay.torch_algorithm import torch_learner
from fast_core.algos.replay.torch_networks import Networks


class TorchModel:
    """What the networks say, of latent states ``[B, D]``.

    Args:
        networks: They themselves.
        shape: Of theirs.
    """

    def __init__(self, networks: Networks, shape: ModelShape) -> None:
        self._networks, self._shape = networks, shape

    def represent(self, rows: Rows) -> Tensor:
        """The latent states of what is observed."""
        return centred(self._networks("representation", self._networks.see(rows)))

    def follow(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The states where actions ``[B, A]`` (ones and zeros) lead, and what says the rewards."""
        said = self._networks("dynamics", torch.cat([latent, action], 1))
        width = self._shape.latent
        return centred(said[:, :width] + latent), said[:, width:]

    def predict(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the prior, and what says the values."""
        said = self._networks("prediction", latent)
        return said[:, : self._shape.choices], said[:, self._shape.choices :]


def centred(latent: Tensor) -> Tensor:
    """As `model.centred`, of ``[B, D]``."""
    return functional.layer_norm(latent, latent.shape[1:], eps=EPSILON)


class ActingModel(TorchInputs):
    """Implements `model.Model`, with convolutions if there are any, and on any device.

    Args:
        settings: Hyper-parameters.
        environment: What is observed.
        setup: Device and precision.
    """

    def __init__(
        self, settings: MuZeroConfig, environment: EnvironmentSpec, setup: PolicySetup
    ) -> None:
        how, images = settings.normalization(environment), settings.images(environment)
        super().__init__(environment, images, how, setup)
        networks = torch_learner(settings).build(settings, environment, seed=0, bf16=self.bf16)
        networks.to(self.device).eval().requires_grad_(False)
        self._tensors = [tensor for _, _, tensor in networks.named_tensors()]
        shape = settings.model(environment)
        self._model, self._choices = TorchModel(networks, shape), shape.choices
        self._value, self._reward = (
            TorchSupport(outputs // 2, self.device) for outputs in (shape.values, shape.rewards)
        )

    def load(self, parameters: Sequence[Array]) -> None:
        """See `model.Model`."""
        with torch.no_grad():
            for tensor, array in zip(self._tensors, self.take(parameters), strict=True):
                tensor.copy_(torch.from_numpy(np.array(array, np.float32)))

    @torch.inference_mode()
    def root(self, obs: Array) -> Root:
        """See `model.Model`."""
        latent = self._model.represent(self.rows(obs))
        return Root(*self._judge(latent), _host(latent))

    @torch.inference_mode()
    def step(self, latent: F32, action: I64) -> Step:
        """See `model.Model`."""
        states, taken = self.tensor(latent, -1), self.tensor(action, -2)
        taken = functional.one_hot(taken, self._choices).to(states.dtype)
        later, reward = self._model.follow(states, taken)
        logits, value = self._judge(later)
        return Step(_host(later), _host(self._reward.decode(reward)), value, logits)

    def _judge(self, latent: Tensor) -> tuple[F32, F32]:
        logits, value = self._model.predict(latent)
        return _host(logits), _host(self._value.decode(value))


def _host(tensor: Tensor) -> F32:
    array: F32 = tensor.cpu().numpy()
    return array
