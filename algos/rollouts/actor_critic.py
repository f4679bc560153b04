"""Learning from rollouts by a loss that torch differentiates: what an algorithm of one's own is.

A subclass has a `loss`, and says what it is made of in `targets` and `make_heads` where the usual
is not enough. All else is here: observations on the device, convolutions or a user's module under
policy and value, memory, bfloat16, bootstrapping, optimizers, checkpoints. Policies, exports and
the page that shows a run know the same actor-critic.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32, NetworkShape, Parameter
from fast_core.algos.nets_torch.checks import check_float32, check_scalars, described
from fast_core.algos.nets_torch.own import tensors
from fast_core.algos.rollouts.core import UpdateCore
from fast_core.algos.rollouts.learner import RolloutLearner
from fast_core.algos.rollouts.recurrent_torch_core import torch_core
from fast_core.algos.rollouts.returns import generalized_advantages
from fast_core.algos.rollouts.targets import JudgedRollout, Outcomes, Targets
from fast_core.algos.rollouts.torch_core import Minibatch, Objective
from fast_core.algos.rollouts.vtrace import effective_sample_size, vtrace
from fast_core.errors import ConfigError

__all__ = [
    "ActorCritic",
    "JudgedRollout",
    "Minibatch",
    "Outcomes",
    "Targets",
    "effective_sample_size",
    "generalized_advantages",
    "vtrace",
]
Settings = TypeVar("Settings")
OURS = (
    "torso",
    "memory",
    "policy",
    "value",
)  # what the names of the networks' parameters begin with


class ActorCritic(RolloutLearner, Generic[Settings]):
    """A learner from rollouts; a subclass has `loss`.

    Args:
        settings: Hyper-parameters, an `ActorCriticConfig` whose ``learner`` names the subclass.
        environment: What is learned.
        shape: The actor-critic network for it.
        setup: The run.

    Attributes:
        evaluates: Whether `targets` needs `JudgedRollout.log_prob`: for rows of older policies.
        environment: What is learned.
        heads: What `make_heads` made.
    """

    environment: EnvironmentSpec
    heads: nn.ModuleDict

    @property
    def settings(self) -> Settings:
        """Hyper-parameters, which callbacks may change."""
        settings: Any = self._settings
        return settings  # type: ignore[no-any-return]

    # --- for subclasses ------------------------------------------------------------------------

    def loss(self, rows: Minibatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """What a minibatch says: a scalar to be differentiated, and scalars to report by name.

        Nothing here should wait for the device (``.item()``, ``.numpy()``, an ``if`` on a tensor):
        whether the gradient is finite, and the step taken, is decided there.
        """
        raise NotImplementedError

    def make_heads(self, features: int) -> dict[str, nn.Module]:
        """Networks beside policy and value, each on ``[B, features]``: what the value's head takes.

        They are called as ``self.heads[name](rows.features)``. One that puts out ``[B, 1]`` judges
        as the value does (`JudgedRollout.outcomes_of`). Torch's generator is seeded.
        """
        return {}

    def learning_rate(self, head: str) -> float:
        """Step size of a head; ``learning_rate_schedule`` is that of all."""
        return self._settings.learning_rate

    # --- building ------------------------------------------------------------------------------

    def _add_heads(
        self, shape: NetworkShape, environment: EnvironmentSpec, first: F32, setup: LearnerSetup
    ) -> F32:
        if type(self).loss is ActorCritic.loss:
            raise ConfigError(
                f"{self._name} lacks loss(self, rows), which returns a scalar tensor and a dict of "
                "numbers to report; docs/adding-an-algorithm.md has an example."
            )
        self.environment, self._tried = environment, False
        self._nonfinite.suspects += f", or what {self._name} makes of them"
        seed = np.random.SeedSequence(setup.seed, spawn_key=(len(OURS),)).generate_state(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seed[0]))
            heads = self.make_heads(shape.head_inputs(-1))
        self._check_heads(heads)
        self.heads = nn.ModuleDict(heads)
        parts = [first]
        for head, module in heads.items():
            for name, tensor in tensors(module):
                start = self._layout[-1].end
                p = Parameter(f"{head}.{name}", tuple(tensor.shape), start, plain=True)
                self._layout = (*self._layout, p)
                parts.append(tensor.detach().numpy().ravel())
        return np.concatenate(parts)

    def _make_core(self, shape: NetworkShape, parameters: F32, setup: LearnerSetup) -> UpdateCore:
        objective = Objective(
            self.loss,
            dict(self.heads.items()),
            self._layout[len(self._networks) :],
            lambda head: self.learning_rate(head) / self._settings.learning_rate,
            draws=True,
            check=self._check_loss,
            whose=self._name,
        )
        return torch_core(self._settings, shape, parameters, setup, objective)

    # --- what goes wrong -----------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_heads(self, heads: object) -> None:
        where = f"make_heads of {self._name}"
        if not isinstance(heads, dict) or not all(isinstance(m, nn.Module) for m in heads.values()):
            raise ConfigError(
                f"{where} must return a dict of torch.nn.Modules by name; got {described(heads)}."
            )
        for head, module in heads.items():
            if head in OURS or "." in head:
                raise ConfigError(
                    f"{where}: a head can't be called {head!r}; policy, value and what lies under "
                    "them are there already. Use another name, without dots."
                )
            if not any(True for _ in tensors(module)):
                raise ConfigError(f"{where}: {head!r} has no parameters. Compute it in loss.")
            check_float32(where, ((f"{head}.{name}", each) for name, each in tensors(module)))

    def _targets(self, rollout: JudgedRollout) -> Targets:
        found, where = self.targets(rollout), f"targets of {self._name}"
        if not isinstance(found, Targets):
            raise ConfigError(f"{where} must return a Targets; got {described(found)}.")
        shape = rollout.outcomes.reward.shape

        def checked(name: str, column: object) -> F32:
            if not isinstance(column, np.ndarray) or column.shape != shape:
                raise ConfigError(
                    f"{where}: {name} must be an array [steps, environments], {list(shape)} here; "
                    f"got {described(column)}."
                )
            return column.astype(np.float32, copy=False)

        anchor = found.old_log_prob
        return replace(
            found,
            advantage=checked("advantage", found.advantage),
            target=checked("target", found.target),
            old_log_prob=None if anchor is None else checked("old_log_prob", anchor),
            extra={name: checked(name, column) for name, column in found.extra.items()},
        )

    def _check_loss(self, found: object, parameters: Mapping[str, Tensor]) -> None:
        """Refuse what is no loss; looks at forms alone, and once at what the loss is made of."""
        where = f"loss of {self._name}"
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)):
            raise ConfigError(
                f"{where} must return a loss and a dict of numbers to report; got "
                f"{described(found)}."
            )
        check_scalars(where, "losses", {"loss": found[0]})
        check_scalars(where, "metrics", found[1])
        if self._tried:
            return
        self._tried = True
        reached = _leaves_of(found[0])
        groups: dict[str, bool] = {}
        for name, tensor in parameters.items():
            if tensor.requires_grad:
                group = name.partition(".")[0]
                groups[group] = groups.get(group, False) or id(tensor) in reached
        for group in [group for group, is_reached in groups.items() if not is_reached]:
            says = (
                f"{where} does not depend on any parameter of {group!r}, so that it would never "
                "learn"
            )
            if group == "value":
                warnings.warn(
                    f"{says}; targets are made of its values. Add an error of rows.value.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                continue
            what = "rows.log_prob, rows.entropy or rows.output"
            if group in self.heads:
                what = f"self.heads[{group!r}](rows.features)"
            raise ConfigError(
                f"{says}. Use {what} in it, without .detach(), .item() or torch.no_grad()."
            )


def _leaves_of(loss: Tensor) -> set[int]:
    """The parameters that a gradient of ``loss`` reaches, by identity."""
    found: set[int] = set()
    seen: set[Any] = set()
    left: list[Any] = [loss.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        left += [after for after, _ in node.next_functions]
    return found
