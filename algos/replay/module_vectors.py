"""The vectors of torch modules: their parameters, gradients and targets are views of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets_torch.networks import tensor_view
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.device_inputs import TensorScaling
from fast_core.algos.replay.torch_networks import Networks
from fast_core.algos.replay.torch_vectors import TorchVectors
from fast_core.algos.replay.vectors import OBSERVATIONS, Layout


class ModuleVectors(TorchVectors):
    """The vectors of torch modules, whose tensors are views of them.

    Attributes:
        learned: Parameters that learn, by part.
    """

    def __init__(
        self, layout: Layout, parameters: F32, setup: LearnerSetup, *, epsilon: float
    ) -> None:
        super().__init__(layout, parameters, setup, epsilon=epsilon)
        self.learned: dict[str, list[Tensor]] = {}

    @property
    def uploader(self) -> Uploader:
        """Brings arrays to the device and back."""
        return self._upload

    def bind(self, online: Networks, target: Networks) -> None:
        """Let the modules' tensors be views of the vectors."""
        places = {p.name: p for p in self._layout.parameters}
        for networks, vector in ((online, self._parameters), (target, self._targets)):
            networks.to(self._device).eval()
            for part, name, tensor in networks.named_tensors():
                p = places[name]
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
        """Make every gradient zero, but for what a batch has said of itself."""
        groups = list(self._layout.groups.values())
        first = groups[0].place.stop if groups[0].name == OBSERVATIONS else 0
        self._gradient[first:].zero_()

    def differentiate(self, loss: Tensor, learned: Sequence[Tensor]) -> None:
        """Write a loss's gradient for these parameters; of those it does not reach, none.

        To accumulate it, as ``backward`` does, costs a node of the graph for each parameter.
        """
        found: tuple[Tensor | None, ...] = torch.autograd.grad(loss, learned, allow_unused=True)
        places, gradients = [], []
        for parameter, gradient in zip(learned, found, strict=True):
            assert parameter.grad is not None, "`bind` gave it a place"
            if gradient is not None:
                places.append(parameter.grad)
                gradients.append(gradient.to_dense() if gradient.is_sparse else gradient)
        if places:
            torch._foreach_copy_(places, gradients)

    def judge(self, stop: int, error: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient's length up to ``stop``, and 1 if it or an error is not finite, else 0."""
        groups = [group for group in self._layout.groups.values() if group.statistic]
        said = [group.place for group in groups if group.place.stop <= stop]
        edges = [0, *(edge for place in said for edge in (place.start, place.stop)), stop]
        spans = [slice(a, b) for a, b in zip(edges[0::2], edges[1::2], strict=True) if b > a]
        norms = [torch.linalg.vector_norm(self._gradient[span]) for span in spans]
        norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
        total = norm + error.detach().sum()
        for place in said:
            total = total + self._gradient[place].sum()
        return norm, (~torch.isfinite(total)).float()

    def limit(self, name: str, longest: float | None) -> None:
        """Shorten the gradient of a network, with the encoder's if it trains that."""
        if longest is None or name == "encoder":
            return
        names = [n for n in ("encoder",) if n in self._layout.groups and name == "critics"] + [name]
        places = [self._gradient[self._layout.groups[n].place] for n in names]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p) for p in places]))
        scale = (longest / (norm + 1e-6)).clamp(max=1.0)
        for place in places:
            place.mul_(scale)

    def follow(self, rate: float) -> None:
        """Move every target network by ``rate`` of its distance, unless `bad` says otherwise."""
        if self.bad is None:
            super().follow(rate)
            return
        with torch.no_grad():
            share = rate * (1.0 - self.bad)
            for group in self._layout.targets:
                self._targets[group.place].lerp_(self._parameters[group.place], share)

    def keep_statistic(self, name: str, values: Tensor) -> None:
        """Replace the numbers of a group, unless `bad` says otherwise."""
        place = self._parameters[self._layout.groups[name].place]
        place.copy_(values if self.bad is None else torch.where(self.bad > 0, place, values))
