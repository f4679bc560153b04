"""The vectors of a replay learner in torch, on any device; those of its modules are views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.adam import FlatAdam
from fast_core.algos.nets_torch.networks import tensor_view
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.torch_networks import Networks
from fast_core.algos.replay.vectors import BELOW, OBSERVATIONS, Layout, Vectors


class TensorScaling(NamedTuple):
    """Mean and inverse deviation, on the device, and the limit of what is normalised by them."""

    mean: Tensor
    inverse_std: Tensor
    limit: float

    def __call__(self, rows: Tensor) -> Tensor:
        """Centre, scale and clip ``rows [N, size]``, to the bits of `nets.normalizer.normalise`."""
        return ((rows - self.mean) * self.inverse_std).clamp_(-self.limit, self.limit)


class TorchVectors(Vectors):
    """Parameters, gradient and targets as flat tensors.

    On the CPU the arrays that it hands out are the tensors' memory; elsewhere they are copies.

    Attributes:
        upload: Brings arrays to the device and back.
        bad: 1 where no step is to be taken, else 0; None: one is.
        learned: Parameters that learn, by part.

    Args:
        layout: Of the vectors.
        parameters: First values; they are owned from here on.
        setup: Device and precision.
        epsilon: Adam's denominator offset.
        staging: How arrays get to the device; by default what the device needs.
    """

    _parameters: Tensor
    _gradient: Tensor
    _targets: Tensor

    def __init__(
        self,
        layout: Layout,
        parameters: F32,
        setup: LearnerSetup,
        *,
        epsilon: float,
        staging: Staging | None = None,
    ) -> None:
        super().__init__(layout)
        self.bad: Tensor | None = None
        self.learned: dict[str, list[Tensor]] = {}
        self._written: set[str] = set()  # parts whose gradient the last losses wrote
        # The part that the encoder learns for: critics, or the first network of a model.
        networks = [name for name, group in layout.groups.items() if group.shape is not None]
        self._seeing = "critics" if "critics" in layout.groups else next(iter(networks), "")
        self._device = torch.device(setup.device)
        self.upload = Uploader(staging or make_staging(self._device))
        if setup.precision == "bf16":
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

    def _host(self, part: Any) -> F32:
        array: F32 = part.cpu().numpy()
        return array

    def _ours(self, values: F32) -> Tensor:
        return self.upload(values)

    # --- torch modules -------------------------------------------------------------------------

    def bind(self, online: Networks, target: Networks) -> None:
        """Let the modules' tensors be views of the vectors."""
        for networks, vector in ((online, self._parameters), (target, self._targets)):
            networks.to(self._device).eval()
            for part, tensors in networks.tensors().items():
                parameters = self._layout.groups[part].parameters
                for p, tensor in zip(parameters, tensors, strict=True):
                    tensor.data = tensor_view(vector, p)
                    if networks is target:
                        tensor.requires_grad_(False)
                    elif tensor.requires_grad:
                        tensor.grad = tensor_view(self._gradient, p)
                        self.learned.setdefault(part, []).append(tensor)
        target.keep([group.name for group in self._layout.targets])

    def scaling(self, limit: float) -> TensorScaling:
        """How observations are normalised, views too."""
        (rows,) = self._layout.groups[OBSERVATIONS].parameters
        mean, inverse_std, *_ = tensor_view(self._parameters, rows)
        return TensorScaling(mean, inverse_std, limit)

    def clear(self) -> None:
        """Make zero what no loss wrote last time, but for what a batch has said of itself."""
        for name, group in self._layout.groups.items():
            if name != OBSERVATIONS and name not in self._written:
                self._gradient[group.place].zero_()

    def differentiate(self, losses: Mapping[str, Tensor]) -> None:
        """Write the gradients of losses by part; what lies below has those of `_seeing`.

        Parts of one loss are differentiated at once. To accumulate gradients, as ``backward`` does,
        costs a node of the graph for each parameter.
        """
        before, self._written = self._written, set()
        together: dict[int, list[str]] = {}
        for part, loss in losses.items():
            names = [*BELOW, part] if part == self._seeing else [part]
            together.setdefault(id(loss), []).extend(names)
        for names in together.values():
            learned = [p for name in names for p in self.learned.get(name, [])]
            if learned:
                self._written.update(names)
                loss = losses[names[-1]]
                _write(learned, torch.autograd.grad(loss, learned, allow_unused=True))
        for name in before - self._written:
            self._gradient[self._layout.groups[name].place].zero_()

    def judge(self, stop: int, error: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The gradient's length up to ``stop``, and 1 if it or an error is not finite, else 0."""
        groups = [group for group in self._layout.groups.values() if group.statistic]
        said = [group.place for group in groups if group.place.stop <= stop]
        edges = [0, *(edge for place in said for edge in (place.start, place.stop)), stop]
        spans = [slice(a, b) for a, b in zip(edges[0::2], edges[1::2], strict=True) if b > a]
        norms = [torch.linalg.vector_norm(self._gradient[span]) for span in spans]
        norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
        total = norm if error is None else norm + error.detach().sum()
        for place in said:
            total = total + self._gradient[place].sum()
        return norm, (~torch.isfinite(total)).float()

    def limit(self, name: str, longest: float | None) -> None:
        """Shorten the gradient of a network, with that of what lies below if it trains that."""
        if longest is None or name in BELOW:
            return
        names = [n for n in BELOW if n in self._layout.groups and name == self._seeing] + [name]
        places = [self._gradient[self._layout.groups[n].place] for n in names]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p) for p in places]))
        scale = (longest / (norm + 1e-6)).clamp(max=1.0)
        for place in places:
            place.mul_(scale)

    def keep_statistic(self, name: str, values: Tensor) -> None:
        """Replace the numbers of a group, unless `bad` says otherwise."""
        place = self._parameters[self._layout.groups[name].place]
        place.copy_(values if self.bad is None else torch.where(self.bad > 0, place, values))

    # --- what a learner of any library needs ---------------------------------------------------

    def replace_gradient(self, gradient: F32) -> None:
        """Take the first part of the gradient from elsewhere."""
        source = torch.from_numpy(gradient)
        if source.data_ptr() != self._gradient.data_ptr():
            self._gradient[: len(gradient)].copy_(source)

    def step(self, name: str, learning_rate: float) -> None:
        """One Adam step of a group, unless `bad` says otherwise."""
        self._adams[name].step(learning_rate * self.step_scale, bad=self.bad)

    @torch.no_grad()
    def follow(self, rate: float) -> None:
        """Move every target network by ``rate`` of its distance, unless `bad` says otherwise."""
        share = rate if self.bad is None else rate * (1.0 - self.bad)
        for group in self._layout.targets:
            self._targets[group.place].lerp_(self._parameters[group.place], share)


def _write(learned: Sequence[Tensor], found: Sequence[Tensor | None]) -> None:
    """Write gradients where `TorchVectors.bind` gave them a place; zero where there is none."""
    places, gradients = [], []
    for parameter, gradient in zip(learned, found, strict=True):
        assert parameter.grad is not None, "it has a place"
        if gradient is None:
            parameter.grad.zero_()
        else:
            places.append(parameter.grad)
            gradients.append(gradient.to_dense() if gradient.is_sparse else gradient)
    if places:
        torch._foreach_copy_(places, gradients)
