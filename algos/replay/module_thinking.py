"""Critics of torch modules that judge what a policy does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets_torch.policy_inputs import TorchInputs
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_algorithm import torch_learner


class ModuleCritics:
    """On the CPU and in float32; implements `fast_core.algos.replay.thinking.Critics`.

    Args:
        settings: Hyper-parameters, which name the learner.
        environment: What is observed.
    """

    def __init__(self, settings: ReplaySettings, environment: EnvironmentSpec) -> None:
        self._settings, self._learner = settings, torch_learner(settings)
        how, images = settings.normalization(environment), settings.images(environment)
        self._inputs = TorchInputs(environment, images, how, PolicySetup("torch"))
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
        acting = self._inputs.take(parameters[: first - 1])  # without the share of exploration
        arrays = [*acting, *parameters[first:]]
        with torch.no_grad():
            for tensor, array in zip([*self._acting, *self._judging], arrays, strict=True):
                tensor.copy_(torch.from_numpy(np.array(array, np.float32)))

    def __call__(self, obs: Array, actions: F32, state: Array | None) -> F32:
        """See `Critics`."""
        many = np.repeat(obs, len(actions), axis=0)
        with torch.inference_mode():
            rows = self._inputs.rows(many)
            said = self._learner.judge(
                self._settings, self._networks, rows, torch.from_numpy(np.array(actions))
            )
        found: F32 = said.transpose(1, 2).numpy()
        return found
