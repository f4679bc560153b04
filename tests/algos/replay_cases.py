"""Environments, batches and learners that the tests of replay algorithms share."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algorithm import LearnerSetup, ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.dsac_config import DSACConfig, DSACTConfig
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.algos.replay.td3_config import DDPGConfig, TD3Config

BOX = {
    "sac": SACConfig,
    "redq": SACConfig,
    "td3": TD3Config,
    "ddpg": DDPGConfig,
    "dsac": DSACConfig,
    "dsact": DSACTConfig,
}
ALL = {**BOX, "dqn": DQNConfig}
BACKENDS = ["numpy", "torch"]


def make_config(name: str, **changes: Any) -> Any:
    given: dict[str, Any] = {"hidden_sizes": (16, 12), "batch_size": 8, "learning_rate": 1e-3}
    if name == "redq":
        given |= {"critics": 4, "critics_in_target": 2}
    return ALL[name](**(given | changes))


def box_environment(
    low: tuple[float, ...] = (-1.0, -2.0), high: tuple[float, ...] = (3.0, 2.0), inputs: int = 5
) -> EnvironmentSpec:
    """Five numbers seen, two actions within bounds that are not symmetric."""
    unbounded = SpaceSpec("box", (inputs,), "float32", low=(-np.inf,), high=(np.inf,))
    action = SpaceSpec("box", (len(low),), "float32", low=low, high=high)
    return EnvironmentSpec("Test-v0", unbounded, action)


def discrete_environment(choices: int = 3, inputs: int = 5) -> EnvironmentSpec:
    unbounded = SpaceSpec("box", (inputs,), "float32", low=(-np.inf,), high=(np.inf,))
    return EnvironmentSpec(
        "Test-v0", unbounded, SpaceSpec("discrete", (), "int64", n=choices, start=2)
    )


def environment_for(name: str) -> EnvironmentSpec:
    return discrete_environment() if name == "dqn" else box_environment()


def make_learner(config: Any, environment: EnvironmentSpec, *, seed: int = 0, **setup: Any) -> Any:
    return config.make_algorithm(environment, LearnerSetup(seed, 1, 1, 1, **setup))


def make_batch(environment: EnvironmentSpec, rows: int = 8, seed: int = 0) -> ReplayBatch:
    rng = np.random.default_rng(seed)
    inputs, action = environment.observation.size, environment.action
    if action.kind == "discrete":
        actions = rng.integers(0, action.n, rows)
    else:
        actions = rng.uniform(-1, 1, (rows, action.size)).astype(np.float32)
    return ReplayBatch(
        obs=rng.normal(size=(rows, inputs)).astype(np.float32),
        action=actions,
        reward=rng.normal(size=rows).astype(np.float32),
        discount=np.where(rng.random(rows) < 0.3, 0.0, 0.97).astype(np.float32),
        next_obs=rng.normal(size=(rows, inputs)).astype(np.float32),
        weight=rng.uniform(0.2, 1.0, rows).astype(np.float32),
        env_steps=100,
        progress=0.1,
    )


def changed(batch: ReplayBatch, **columns: Any) -> ReplayBatch:
    return dataclasses.replace(batch, **columns)


def flat(arrays: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(array) for array in arrays.values()])


def constant_networks(state: dict[str, Any], group: str, values: list[float]) -> None:
    """Make the networks of a group put out these numbers, whatever they see."""
    for where in ("parameters", "targets"):
        names = [name for name in state[where] if name.startswith(f"{group}.")]
        for name in names:
            state[where][name] = np.zeros_like(state[where][name])
        if names:
            last = state[where][names[-1]]
            last[...] = values


# --- the same in torch, the short way, for gradients ---------------------------------------------


class Oracle:
    """A learner's networks under autograd, and the noise that it will draw next."""

    def __init__(self, learner: Any) -> None:
        state = learner.state_dict()
        self.leaves = {
            name: torch.tensor(array, requires_grad=True)
            for name, array in state["parameters"].items()
        }
        self.targets = {name: torch.tensor(array) for name, array in state["targets"].items()}
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = json.loads(state["random_state"])

    def mlp(self, group: str, x: Tensor, *, target: bool = False, fixed: bool = False) -> Tensor:
        """Outputs ``[M, N, out]`` for ``x [N, in]``."""
        leaves = self.targets if target else self.leaves
        names = [name for name in leaves if name.startswith(f"{group}.")]
        for index, (weight, bias) in enumerate(zip(names[0::2], names[1::2], strict=True)):
            w, b = leaves[weight], leaves[bias]
            if fixed:
                w, b = w.detach(), b.detach()
            x = x @ w.transpose(1, 2) + b[:, None]
            if index < len(names) // 2 - 1:
                x = functional.relu(x)
        return x

    def normal(self, *shape: int) -> Tensor:
        """The learner's next noise; it draws ``[A, N]``."""
        return torch.from_numpy(self.rng.standard_normal(shape, np.float32))

    def squashed(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Actions ``[N, A]`` and log-probabilities from a policy's output, by torch."""
        mean, log_std = output.chunk(2, -1)
        noise = self.normal(mean.shape[1], mean.shape[0]).T
        base = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        u = mean + log_std.clamp(-20, 2).exp() * noise
        tanh = torch.distributions.transforms.TanhTransform()
        action = tanh(u)
        log_prob = base.log_prob(u) - tanh.log_abs_det_jacobian(u, action)
        return action, log_prob.sum(-1)

    def gradient(self, loss: Tensor) -> np.ndarray:
        """Of every parameter, zeros where there is none, as `ReplayLearner.gradient` lays out."""
        found = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        return np.concatenate(
            [
                np.zeros(leaf.numel(), np.float32) if g is None else g.numpy().ravel()
                for g, leaf in zip(found, self.leaves.values(), strict=True)
            ]
        )


def as_tensors(batch: ReplayBatch) -> tuple[Tensor, ...]:
    columns = (batch.obs, batch.action, batch.reward, batch.discount, batch.next_obs, batch.weight)
    return tuple(torch.from_numpy(np.asarray(column)) for column in columns)
