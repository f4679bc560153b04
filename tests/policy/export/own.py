"""An algorithm of a user's own: whatever module it is given acts, and is exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import ActionOutput, Array
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.config import AlgorithmConfig
from tests.policy.export.cases import box

PARAMETERS = (np.ones(1, np.float32),)


class Module(nn.Module):
    """Applies a function, and scales with the only parameter."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(obs) * self.scale


class OwnPolicy:
    """Acts with a module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def load(self, parameters: Sequence[Array]) -> None:
        with torch.no_grad():
            self._module.scale.copy_(torch.from_numpy(np.array(parameters[0])))

    def act(self, obs: Any, **_: Any) -> ActionOutput:
        with torch.no_grad():
            action = self._module(torch.from_numpy(obs.copy())).numpy()
        return ActionOutput(action, np.zeros(len(obs), np.float32))

    def environment_action(self, action: Array) -> Array:
        return action


def own(acts: Any, exported: Any = "the same", inputs: int = 4) -> tuple[Any, EnvironmentSpec]:
    """An algorithm whose policies are the function ``acts`` of observations.

    Args:
        acts: The function.
        exported: What its ``policy_module`` returns, if something else.
        inputs: Numbers observed.
    """

    class OwnConfig(AlgorithmConfig, frozen=True, kw_only=True):
        name: str = "own"

        def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
            return (FieldSpec("scale", (1,), "float32"),)

        def make_policy(self, environment: Any, setup: Any) -> Any:
            return OwnPolicy(Module(acts))

        def policy_module(self, environment: Any, parameters: Any) -> object:
            return Module(acts) if exported == "the same" else exported

    outputs = Module(acts)(torch.zeros(2, inputs)).shape[1]
    return OwnConfig(), EnvironmentSpec("Own-v0", box(inputs), box(outputs))
