"""The vectors of a replay learner in torch, on any device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.mlp import Mlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.adam import FlatAdam
from fast_core.algos.nets_torch.mlp import TorchMlp
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.critic_batch import CriticInputs, Inputs
from fast_core.algos.replay.device_inputs import DeviceInputs, TensorScaling
from fast_core.algos.replay.torch_encoder import TorchEncoder
from fast_core.algos.replay.vectors import OBSERVATIONS, Layout, VectorState, host_scaling


class TorchVectors:
    """Parameters, gradient and targets as flat tensors; implements `replay.vectors.Vectors`.

    On the CPU the arrays that it hands out are the tensors' memory; elsewhere they are copies.

    Attributes:
        bad: 1 where no step is to be taken, else 0; None: one is.

    Args:
        layout: Of the vectors.
        parameters: First values; they are owned from here on.
        setup: Device and precision.
        epsilon: Adam's denominator offset.
        staging: How arrays get to the device; by default what the device needs.
    """

    def __init__(
        self,
        layout: Layout,
        parameters: F32,
        setup: LearnerSetup,
        *,
        epsilon: float,
        staging: Staging | None = None,
    ) -> None:
        self.step_scale = 1.0
        self.bad: Tensor | None = None
        self._layout = layout
        self._device = torch.device(setup.device)
        self._upload = Uploader(staging or make_staging(self._device))
        self._bf16 = setup.precision == "bf16"
        if self._bf16:
            warn_of_slow_bf16(self._device, "nodes.optimizer.precision")
        self._parameters = torch.from_numpy(parameters).to(self._device)
        self._gradient = torch.zeros_like(self._parameters)
        self._targets = self._parameters.clone()
        self._adams = {
            name: FlatAdam(
                self._parameters[group.place], self._gradient[group.place], epsilon=epsilon
            )
            for name, group in layout.groups.items()
        }

    def network(self, name: str) -> Mlp:
        """The network of a group."""
        return self._network(name, self._parameters, self._gradient)

    def target_network(self, name: str) -> Mlp:
        """The target network of a group."""
        return self._network(name, self._targets, None)

    def inputs(
        self, encoder: ObservationEncoder, actions: int, limit: float | None = None
    ) -> Inputs:
        """Batches as networks take them: on the device, or as NumPy has them."""
        if "encoder" not in self._layout.groups and not self._upload.staged:
            return CriticInputs(encoder, actions, host_scaling(self, encoder, limit))
        scaling, online, target = None, None, None
        if limit is not None:
            place = self._layout.groups[OBSERVATIONS].place
            mean, inverse_std, *_ = self._parameters[place].view(-1, encoder.size)
            scaling = TensorScaling(mean, inverse_std, limit)
        if "encoder" in self._layout.groups:
            group = self._layout.groups["encoder"]
            online = TorchEncoder(group, self._parameters, self._gradient, bf16=self._bf16)
            target = TorchEncoder(group, self._targets, None, bf16=self._bf16)
        return DeviceInputs(encoder, actions, self._upload, self._device, online, target, scaling)

    def numbers(self, name: str) -> F32:
        """The numbers of a group; shares memory on the CPU."""
        numbers: F32 = self._parameters[self._layout.groups[name].place].cpu().numpy()
        return numbers

    def put_numbers(self, name: str, values: F32) -> None:
        """Replace them."""
        self._parameters[self._layout.groups[name].place] = self._upload(values)

    def gradient(self, name: str) -> F32:
        """The gradient of a group; shares memory on the CPU."""
        gradient: F32 = self._gradient[self._layout.groups[name].place].cpu().numpy()
        return gradient

    def put_gradient(self, name: str, values: F32) -> None:
        """Write the gradient of a group without a network."""
        self._gradient[self._layout.groups[name].place] = self._upload(values)

    def exchange(self, stop: int) -> F32:
        """The gradient up to ``stop``; shares memory on the CPU."""
        gradient: F32 = self._gradient[:stop].cpu().numpy()
        return gradient

    def replace_gradient(self, gradient: F32) -> None:
        """Take the first part of the gradient from elsewhere."""
        source = torch.from_numpy(gradient)
        if source.data_ptr() != self._gradient.data_ptr():
            self._gradient[: len(gradient)].copy_(source)

    def gradient_norm(self, place: slice) -> float:
        """Length of a part of the gradient."""
        return float(torch.linalg.vector_norm(self._gradient[place]).item())

    def step(self, name: str, learning_rate: float, scale: float = 1.0) -> None:
        """One Adam step of a group, unless `bad` says otherwise."""
        if scale != 1.0:
            self._gradient[self._layout.groups[name].place].mul_(scale)
        self._adams[name].step(learning_rate * self.step_scale, bad=self.bad)

    def follow(self, rate: float) -> None:
        """Move every target network by ``rate`` of its distance."""
        with torch.no_grad():
            for group in self._layout.targets:
                self._targets[group.place].lerp_(self._parameters[group.place], rate)

    def parameters(self) -> F32:
        """All parameters on the host; shares memory on the CPU."""
        parameters: F32 = self._parameters.cpu().numpy()
        return parameters

    def targets(self) -> F32:
        """All parameters of target networks; shares memory on the CPU."""
        targets: F32 = self._targets.cpu().numpy()
        return targets

    def adopt(self, parameters: F32, targets: F32) -> None:
        """Take parameters and targets from elsewhere; optimizers stay as they are."""
        self._parameters.copy_(torch.from_numpy(parameters))
        self._targets.copy_(torch.from_numpy(targets))

    def export_state(self) -> VectorState:
        """Copy everything that changes."""
        first, second = (np.zeros(self._layout.size, np.float32) for _ in range(2))
        for name, adam in self._adams.items():
            place = self._layout.groups[name].place
            first[place], second[place] = adam.moments()
        return VectorState(
            parameters=self.parameters().copy(),
            targets=self._targets.cpu().numpy().copy(),
            first_moment=first,
            second_moment=second,
            steps={name: adam.steps for name, adam in self._adams.items()},
        )

    def import_state(self, state: VectorState) -> None:
        """Continue from `export_state`; optimizers keep the live parameters."""
        self.adopt(state.parameters, state.targets)
        for name, adam in self._adams.items():
            place = self._layout.groups[name].place
            adam.load(state.first_moment[place], state.second_moment[place], state.steps[name])

    def _network(self, name: str, flat: Tensor, gradient: Tensor | None) -> Mlp:
        group = self._layout.groups[name]
        assert group.shape is not None, f"{name} is a network"
        return TorchMlp(
            group.shape, group.parameters, flat, gradient, self._upload, bf16=self._bf16
        )
