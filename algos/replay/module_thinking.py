"""Critics of torch modules that judge what a policy does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.replay.actors import take_statistics
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_algorithm import torch_learner
from fast_core.spec import EnvironmentSpec


class ModuleCritics:
    """On the CPU and in float32; implements `fast_core.algos.replay.thinking.Critics`.

    Args:
        settings: Hyper-parameters, which name the learner.
        environment: What is observed.
    """

    def __init__(self, settings: ReplaySettings, environment: EnvironmentSpec) -> None:
        self._settings, self._learner = settings, torch_learner(settings)
        self._encoder = ObservationEncoder(environment, settings.images(environment))
        self._how = settings.normalization(environment)
        self._scaling: Scaling | None = None
        self._networks = self._learner.build(settings, environment, seed=0)
        modules = settings.modules(environment)
        # In the order in which they travel: what acts, then what only judges.
        parts = [m.name for m in modules if m.acts], [m.name for m in modules if m.only_judges]
        self._networks.keep({*parts[0], *parts[1]})
        self._networks.eval().requires_grad_(False)
        self._acting, self._judging = (self._tensors(each) for each in parts)

    def _tensors(self, parts: Sequence[str]) -> list[Tensor]:
        return [tensor for part, _, tensor in self._networks.named_tensors() if part in parts]

    def load(self, parameters: Sequence[Array]) -> None:
        """See `Critics`."""
        first = len(parameters) - len(self._judging)
        acting = list(parameters[: first - 1])  # without the share of exploration
        self._scaling = take_statistics(acting, self._how, self._encoder)
        arrays = [*acting, *parameters[first:]]
        with torch.no_grad():
            for tensor, array in zip([*self._acting, *self._judging], arrays, strict=True):
                tensor.copy_(torch.from_numpy(np.array(array, np.float32)))

    def __call__(self, obs: Array, actions: F32) -> F32:
        """See `Critics`."""
        many = np.repeat(obs, len(actions), axis=0)
        vector = self._encoder.vector(many)
        if self._scaling is not None:
            vector = self._scaling(vector)
        images = tuple(torch.from_numpy(np.array(i)) for i in self._encoder.images(many))
        rows = Rows(torch.from_numpy(np.array(vector)), images)
        with torch.inference_mode():
            said = self._learner.judge(
                self._settings, self._networks, rows, torch.from_numpy(np.array(actions))
            )
        found: F32 = said.transpose(1, 2).numpy()
        return found
