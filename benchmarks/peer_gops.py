"""A serial trainer of DSAC, the way GOPS runs its own, as a process of its own.

    python -m benchmarks.peer_gops --task pendulum --threads 1 2

GOPS (Tsinghua iDLab) is not on the package index, so this stands in for its
``off_serial_trainer``: one process that steps an environment, stores single transitions, draws a
batch and takes a step of autograd with an optimizer each for critic, policy and temperature, in
turn. It is written from the published algorithm (arXiv:2001.02811) and from how such a loop is
usually put together in torch: a network call and a `torch.distributions` object per environment
step, an update of the targets parameter by parameter, losses read back for the log. It leaves out
what GOPS does beside that (evaluation, files), so it is no slower than it should be.

Where GOPS itself is importable, ``--task gops`` times ``step()`` of its own trainer, with the
settings of its example for a continuous cart-pole.

The last line is a JSON object. Not part of FastLoop: it is what FastLoop is compared with.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Independent, Normal

LOG_INTERVAL = 100
WARM_UP_UPDATES = 50
LOG_STD = (-20.0, 0.5)
LOG_DEVIATION = (-0.1, 4.0)


@dataclass(frozen=True)
class Task:
    """What is trained.

    Attributes:
        environment: Its id.
        hidden: Width of the two hidden layers of every network.
        batch: Rows of an update.
        steps: Environment steps before each update.
        warm_up: Transitions stored before the first.
        capacity: Transitions kept.
    """

    environment: str
    hidden: int
    batch: int
    steps: int
    warm_up: int = 1_000
    capacity: int = 100_000


TASKS = {
    "pendulum": Task("InvertedPendulum-v5", hidden=64, batch=64, steps=4),
    "halfcheetah": Task("HalfCheetah-v5", hidden=256, batch=256, steps=1),
}


class Networks(nn.Module):
    """Critic, policy, their targets, and the temperature."""

    def __init__(self, obs: int, act: int, hidden: int, limit: Tensor) -> None:
        super().__init__()
        self.critic = perceptron(obs + act, hidden, 2)
        self.policy = perceptron(obs, hidden, 2 * act)
        self.critic_target = frozen_copy(self.critic)
        self.policy_target = frozen_copy(self.policy)
        self.log_alpha = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("limit", limit)

    def distribution(self, policy: nn.Module, obs: Tensor) -> SquashedNormal:
        """What ``policy`` does where ``obs`` is seen."""
        mean, log_std = policy(obs).chunk(2, dim=-1)
        return SquashedNormal(mean, log_std.clamp(*LOG_STD).exp(), self.limit)

    @staticmethod
    def value(critic: nn.Module, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the return."""
        mean, log_deviation = critic(torch.cat([obs, act], dim=-1)).unbind(-1)
        return mean, log_deviation.clamp(*LOG_DEVIATION).exp()


class SquashedNormal:
    """A Gaussian behind a tanh, scaled to the box."""

    def __init__(self, mean: Tensor, std: Tensor, limit: Tensor) -> None:
        self._normal = Independent(Normal(mean, std), 1)
        self._limit = limit

    def rsample(self) -> tuple[Tensor, Tensor]:
        """Actions that gradients flow through, and their log-probabilities."""
        raw = self._normal.rsample()
        squashed = torch.tanh(raw)
        jacobian = torch.log(self._limit * (1.0 + 1e-6 - squashed.pow(2))).sum(-1)
        return self._limit * squashed, self._normal.log_prob(raw) - jacobian

    def sample(self) -> tuple[Tensor, Tensor]:
        """The same without gradients."""
        with torch.no_grad():
            return self.rsample()


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


def frozen_copy(network: nn.Sequential) -> nn.Sequential:
    """A target of ``network``."""
    return copy.deepcopy(network).requires_grad_(False)


class Buffer:
    """Transitions in arrays, stored one by one."""

    def __init__(self, obs: int, act: int, capacity: int) -> None:
        self._columns: dict[str, NDArray[np.float32]] = {
            "obs": np.zeros((capacity, obs), np.float32),
            "act": np.zeros((capacity, act), np.float32),
            "rew": np.zeros(capacity, np.float32),
            "obs2": np.zeros((capacity, obs), np.float32),
            "done": np.zeros(capacity, np.float32),
            "logp": np.zeros(capacity, np.float32),
        }
        self._capacity, self._next = capacity, 0
        self._rng = np.random.default_rng(0)
        self.size = 0

    def add(self, transitions: list[dict[str, object]]) -> None:
        """Store each of ``transitions``."""
        for transition in transitions:
            for name, value in transition.items():
                self._columns[name][self._next] = value
            self._next = (self._next + 1) % self._capacity
            self.size = min(self.size + 1, self._capacity)

    def draw(self, rows: int) -> dict[str, Tensor]:
        """A batch of random rows."""
        chosen = self._rng.integers(0, self.size, rows)
        return {name: torch.as_tensor(column[chosen]) for name, column in self._columns.items()}


class Sampler:
    """Steps one environment, a network call for each step."""

    def __init__(self, task: Task, networks: Networks) -> None:
        self._env = gymnasium.make(task.environment)
        self._steps, self._networks = task.steps, networks
        self._obs = self._env.reset(seed=0)[0]

    def sample(self) -> list[dict[str, object]]:
        """The transitions of so many steps."""
        return [self._step() for _ in range(self._steps)]

    def _step(self) -> dict[str, object]:
        obs = torch.from_numpy(np.expand_dims(self._obs, 0).astype(np.float32))
        with torch.no_grad():
            distribution = self._networks.distribution(self._networks.policy, obs)
        act, logp = distribution.sample()
        action = act.numpy()[0].astype(np.float32)
        following, reward, terminated, truncated, _ = self._env.step(action)
        transition: dict[str, object] = {
            "obs": self._obs,
            "act": action,
            "rew": reward,
            "obs2": following,
            "done": terminated,
            "logp": logp.numpy()[0],
        }
        self._obs = self._env.reset()[0] if terminated or truncated else following
        return transition


class DSAC:
    """One step of autograd per batch."""

    def __init__(self, networks: Networks, actions: int) -> None:
        self.networks, self._entropy = networks, -float(actions)
        self._gamma, self._tau, self._delay, self._bound = 0.99, 0.005, 2, 10.0
        self._critic = torch.optim.Adam(networks.critic.parameters(), lr=1e-3)
        self._policy = torch.optim.Adam(networks.policy.parameters(), lr=1e-3)
        self._alpha = torch.optim.Adam([networks.log_alpha], lr=1e-3)

    def update(self, batch: dict[str, Tensor], iteration: int) -> dict[str, float]:
        """Differentiate all losses, then step."""
        networks, obs = self.networks, batch["obs"]
        act, logp = networks.distribution(networks.policy, obs).rsample()
        self._critic.zero_grad()
        critic_loss, value, deviation = self._critic_loss(batch)
        critic_loss.backward()
        networks.critic.requires_grad_(False)
        self._policy.zero_grad()
        alpha = networks.log_alpha.exp()
        policy_loss = (alpha.detach() * logp - networks.value(networks.critic, obs, act)[0]).mean()
        policy_loss.backward()
        networks.critic.requires_grad_(True)
        self._alpha.zero_grad()
        (-networks.log_alpha * (logp.detach() + self._entropy).mean()).backward()
        self._step(iteration)
        return {
            "critic_loss": critic_loss.item(),
            "policy_loss": policy_loss.item(),
            "value": value.mean().item(),
            "deviation": deviation.mean().item(),
            "entropy": -logp.detach().mean().item(),
            "alpha": alpha.item(),
        }

    def _critic_loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        networks = self.networks
        value, deviation = networks.value(networks.critic, batch["obs"], batch["act"])
        with torch.no_grad():
            distribution = networks.distribution(networks.policy_target, batch["obs2"])
            following, logp = distribution.rsample()
            mean, std = networks.value(networks.critic_target, batch["obs2"], following)
            returned = mean + std * torch.randn_like(mean).clamp(-3.0, 3.0)
            alpha = networks.log_alpha.exp()
            discount = (1.0 - batch["done"]) * self._gamma
            target = batch["rew"] + discount * (mean - alpha * logp)
            sampled = batch["rew"] + discount * (returned - alpha * logp)
            middle = value.detach()
            bounded = middle + (sampled - middle).clamp(-self._bound, self._bound)
        loss = ((value - target).pow(2) / (2.0 * deviation.detach().pow(2))).mean()
        loss = loss + ((middle - bounded).pow(2) / (2.0 * deviation.pow(2))).mean()
        return loss + deviation.log().mean(), value.detach(), deviation.detach()

    def _step(self, iteration: int) -> None:
        self._critic.step()
        if iteration % self._delay:
            return
        self._policy.step()
        self._alpha.step()
        networks = self.networks
        pairs = (
            (networks.critic, networks.critic_target),
            (networks.policy, networks.policy_target),
        )
        with torch.no_grad():
            for online, target in pairs:
                for new, old in zip(online.parameters(), target.parameters(), strict=True):
                    old.mul_(1.0 - self._tau).add_(self._tau * new)


def stand_in(task: Task) -> Callable[[int], None]:
    """A trainer past its warm-up: its n-th iteration collects, draws and updates."""
    torch.manual_seed(0)
    with gymnasium.make(task.environment) as env:
        shape, box = env.observation_space.shape, env.action_space
    assert shape is not None and isinstance(box, gymnasium.spaces.Box)
    limit = torch.from_numpy(box.high)
    networks = Networks(shape[0], len(limit), task.hidden, limit)
    sampler, buffer = Sampler(task, networks), Buffer(shape[0], len(limit), task.capacity)
    learner = DSAC(networks, len(limit))
    while buffer.size < task.warm_up:
        buffer.add(sampler.sample())
    logged: list[dict[str, float]] = []

    def iterate(iteration: int) -> None:
        buffer.add(sampler.sample())
        figures = learner.update(buffer.draw(task.batch), iteration)
        if iteration % LOG_INTERVAL == 0:
            logged.append(figures)

    return iterate


def gops_itself(folder: Path) -> Callable[[int], None]:
    """GOPS's own trainer past its warm-up, set as in its example for a continuous cart-pole."""
    from gops.create_pkg.create_alg import create_alg
    from gops.create_pkg.create_buffer import create_buffer
    from gops.create_pkg.create_env import create_env
    from gops.create_pkg.create_evaluator import create_evaluator
    from gops.create_pkg.create_sampler import create_sampler
    from gops.create_pkg.create_trainer import create_trainer
    from gops.utils.init_args import init_args

    never = 10**9
    settings: dict[str, object] = {
        "env_id": "gym_cartpoleconti",
        "algorithm": "DSAC",
        "enable_cuda": False,
        "reward_scale": 0.1,
        "is_render": False,
        "is_adversary": False,
        **{f"value_{key}": value for key, value in _gops_network("ActionValueDistri").items()},
        "value_min_log_std": LOG_DEVIATION[0],
        "value_max_log_std": LOG_DEVIATION[1],
        **{f"policy_{key}": value for key, value in _gops_network("StochaPolicy").items()},
        "policy_act_distribution": "TanhGaussDistribution",
        "policy_min_log_std": LOG_STD[0],
        "policy_max_log_std": LOG_STD[1],
        "value_learning_rate": 1e-3,
        "policy_learning_rate": 1e-3,
        "alpha_learning_rate": 1e-3,
        "gamma": 0.99,
        "tau": 0.2,
        "alpha": 0.2,
        "auto_alpha": True,
        "delay_update": 2,
        "TD_bound": 10,
        "bound": True,
        "trainer": "off_serial_trainer",
        "max_iteration": never,
        "ini_network_dir": None,
        "buffer_name": "replay_buffer",
        "buffer_warm_size": 1_000,
        "buffer_max_size": 100_000,
        "replay_batch_size": 64,
        "sample_interval": 1,
        "sampler_name": "off_sampler",
        "sample_batch_size": 4,
        "noise_params": None,
        "evaluator_name": "evaluator",
        "num_eval_episode": 1,
        "eval_interval": never,
        "eval_save": False,
        "save_folder": str(folder),
        "apprfunc_save_interval": never,
        "log_save_interval": LOG_INTERVAL,
    }
    settings = init_args(create_env(**settings), **settings)
    parts = [
        make(**settings) for make in (create_alg, create_sampler, create_buffer, create_evaluator)
    ]
    trainer = create_trainer(*parts, **settings)

    def iterate(iteration: int) -> None:
        trainer.iteration = iteration
        trainer.step()

    return iterate


def _gops_network(name: str) -> dict[str, object]:
    return {
        "func_name": name,
        "func_type": "MLP",
        "hidden_sizes": [64, 64],
        "hidden_activation": "relu",
        "output_activation": "linear",
    }


def rate(iterate: Callable[[int], None], seconds: float) -> float:
    """Iterations, hence updates, per second."""
    for iteration in range(1, WARM_UP_UPDATES + 1):
        iterate(iteration)
    done, begin_s = 0, time.perf_counter()
    while time.perf_counter() < begin_s + seconds:
        done += 1
        iterate(WARM_UP_UPDATES + done)
    return done / (time.perf_counter() - begin_s)


def main() -> None:
    """Measure with each number of threads and print the figures by that number."""
    parser = argparse.ArgumentParser(description="A serial trainer of DSAC.")
    parser.add_argument("--task", choices=(*TASKS, "gops"), default="pendulum")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of threads")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as folder:
        itself = given.task == "gops"
        iterate = gops_itself(Path(folder)) if itself else stand_in(TASKS[given.task])
        figures = {}
        for threads in given.threads:
            torch.set_num_threads(threads)
            figures[str(threads)] = rate(iterate, given.seconds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
