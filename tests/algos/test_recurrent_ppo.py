"""PPO through time: what acts, what is learned, and what both remember are the same."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from fast_core.algorithm import (
    LearnerSetup,
    Policy,
    ShardRollout,
)
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.networks import parameter_layout
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.ppo.autograd import clipped_loss
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.recurrent_core import RecurrentExplicitCore
from fast_core.algos.rollouts.core import Columns
from fast_core.algos.rollouts.merged import FrameRoom, merge
from fast_core.algos.rollouts.recurrent_torch_core import RecurrentTorchCore
from fast_core.algos.rollouts.sequences import Minibatches, Sequences
from fast_core.algos.rollouts.torch_core import Objective
from fast_core.errors import ConfigError
from tests.algos.rollout_cases import make_batch, moved, policy_of

STEPS, ENVS, SHARDS = 12, 3, 2
ROWS = STEPS * ENVS * SHARDS

BOX = SpaceSpec("box", (3,), "float32", low=(-9.0,), high=(9.0,))
CHOICES = SpaceSpec("discrete", (), "int64", n=3, start=1)
MANY = SpaceSpec("multi_discrete", (2,), "int64", counts=(2, 3), starts=(0, 0))
TORQUES = SpaceSpec("box", (2,), "float32", low=(-1.0,), high=(1.0,))
MASKED = SpaceSpec.composite(
    [("joints", BOX), ("legal", SpaceSpec("box", (3,), "int8", low=(0.0,), high=(1.0,)))]
)
CAMERA = EnvironmentSpec(
    "camera", SpaceSpec("box", (16, 16), "uint8", low=(0.0,), high=(255.0,)), CHOICES
)

ENVIRONMENTS = {
    "discrete": EnvironmentSpec("Test-v0", BOX, CHOICES),
    "multi-discrete": EnvironmentSpec("Test-v0", BOX, MANY),
    "continuous": EnvironmentSpec("Test-v0", BOX, TORQUES),
    "masked": EnvironmentSpec("Test-v0", MASKED, CHOICES, action_mask="legal"),
}


def ppo(**changes: Any) -> PPOConfig:
    given: dict[str, Any] = {
        "recurrent": "gru",
        "recurrent_size": 6,
        "hidden_sizes": (5,),
        "minibatch_size": ROWS,
        "epochs": 1,
        "normalize_observations": False,
        "normalize_rewards": False,
        **changes,
    }
    return PPOConfig(name="ppo", **given)


def setup(**changes: Any) -> LearnerSetup:
    return dataclasses.replace(
        LearnerSetup(seed=0, shards=SHARDS, envs_per_shard=ENVS, steps=STEPS), **changes
    )


def made(config: PPOConfig, environment: EnvironmentSpec) -> tuple[Any, Policy, Any]:
    """A learner whose policy is far from uniform, its policy, and a round it collected."""
    learner = moved(config.make_algorithm(environment, setup()), by=0.4)
    policy = policy_of(config, environment, learner)
    return learner, policy, make_batch(config, environment, learner, steps=STEPS, envs=ENVS, seed=7)


# --- against a slow reference --------------------------------------------------------------------


class Reference:
    """The network in torch's own layers, one environment and one step after the other."""

    def __init__(self, config: PPOConfig, parameters: dict[str, np.ndarray]) -> None:
        given = {n: torch.from_numpy(np.array(p, np.float32)) for n, p in parameters.items()}
        self.given = {name: array.requires_grad_() for name, array in given.items()}
        self._size = config.recurrent_size
        kind = torch.nn.GRUCell if config.recurrent == "gru" else torch.nn.LSTMCell
        self._cell = kind(config.hidden_sizes[-1], self._size)
        self._gaussian = "policy.log_std" in parameters

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ self.given[f"{name}.weight"].T + self.given[f"{name}.bias"]

    def step(self, obs: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and the state after one observation of one environment."""
        given, size = self.given, self._size
        weights = {
            "weight_ih": given["memory.input.weight"], "bias_ih": given["memory.input.bias"],
            "weight_hh": given["memory.state.weight"], "bias_hh": given["memory.state.bias"],
        }  # fmt: skip
        x = torch.tanh(self._linear("torso.0", obs))[None]
        before = state[None, :size]
        lstm = isinstance(self._cell, torch.nn.LSTMCell)
        hidden: Any = (before, state[None, size:]) if lstm else before
        after = torch.func.functional_call(self._cell, weights, (x, hidden))
        parts = after if lstm else (after,)
        return parts[0][0], torch.cat([part[0] for part in parts])

    def value(self, features: torch.Tensor) -> torch.Tensor:
        return self._linear("value.head", features)[..., 0]

    def log_prob_and_entropy(self, features: torch.Tensor, action: torch.Tensor) -> Any:
        output = self._linear("policy.head", features)
        if self._gaussian:
            spread = self.given["policy.log_std"].exp().expand_as(output)
            normal = torch.distributions.Normal(output, spread)
            return normal.log_prob(action).sum(-1), normal.entropy().sum(-1)
        categorical = torch.distributions.Categorical(logits=output)
        return categorical.log_prob(action), categorical.entropy()

    def follow(
        self, rollout: ShardRollout, env: int
    ) -> tuple[torch.Tensor, torch.Tensor, dict[int, torch.Tensor]]:
        """Features of the steps of an environment, of the row after them, of final ones."""
        state = torch.from_numpy(np.array(rollout.state[env]))
        features, finals = [], {}
        for t in range(STEPS + 1):
            now, state = self.step(torch.from_numpy(rollout.obs[t, env]), state)
            features.append(now)
            if t < STEPS and rollout.truncated[t, env] and not rollout.terminated[t, env]:
                finals[t] = self.step(torch.from_numpy(rollout.final_obs[t, env]), state)[0]
            if t < STEPS and (rollout.terminated[t, env] or rollout.truncated[t, env]):
                state = torch.zeros_like(state)
        return torch.stack(features[:-1]), features[-1], finals


CORES = {
    "explicit": lambda config, shape, flat: RecurrentExplicitCore(config, shape, flat),
    "autograd": lambda config, shape, flat: RecurrentTorchCore(
        config, shape, flat, setup(), Objective(partial(clipped_loss, config))
    ),
}


def core_and_round(which: str, config: PPOConfig, environment: EnvironmentSpec):
    learner, _, batch = made(config, environment)
    shape = config.shape(environment)
    parameters: Any = learner.state_dict()["parameters"]
    layout = parameter_layout(shape)
    flat = np.zeros(layout[-1].end, np.float32)
    for p in layout:
        p.view(flat)[...] = parameters[p.name]
    core = CORES[which](config, shape, flat)
    merged = merge(batch, ObservationEncoder(environment, ()), FrameRoom())
    core.observe(merged)
    return core, merged, batch, Reference(config, parameters)


@pytest.mark.parametrize("which", CORES)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_values_follow_what_is_remembered(cell: str, which: str) -> None:
    core, merged, batch, reference = core_and_round(
        which, ppo(recurrent=cell), ENVIRONMENTS["discrete"]
    )
    grid = (STEPS + 1) * ENVS * SHARDS
    values = core.values(0, grid).reshape(STEPS + 1, -1)
    final_values = core.values(grid, len(merged.obs))
    assert len(final_values) > 3
    places = zip(merged.final_step, merged.final_column, strict=True)
    found = dict(zip(places, final_values, strict=True))
    for column in range(ENVS * SHARDS):
        rollout, env = batch.rollouts[column // ENVS], column % ENVS
        steps, last, finals = reference.follow(rollout, env)
        expected = torch.cat([reference.value(steps), reference.value(last)[None]])
        np.testing.assert_allclose(values[:, column], expected.detach().numpy(), atol=1e-5)
        for t, features in finals.items():
            value = reference.value(features).item()
            assert found.pop((t, column)) == pytest.approx(value, abs=1e-5)
    assert not found


@pytest.mark.parametrize("which", CORES)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("name", ["discrete", "continuous"])
@pytest.mark.parametrize("quarantined", [False, True])
def test_gradient_through_time_equals_a_slow_loop(
    quarantined: bool, name: str, cell: str, which: str
) -> None:
    config = ppo(
        recurrent=cell, minibatch_size=2 * STEPS, entropy_coef=0.03, normalize_advantage=False
    )
    core, merged, batch, reference = core_and_round(which, config, ENVIRONMENTS[name])
    rng = np.random.default_rng(3)
    scalars = rng.normal(0.0, 1.0, (4, ROWS)).astype(np.float32)
    scalars[0] = merged.behaviour_log_prob.reshape(-1) + 0.3 * scalars[0]
    known = rng.random(ROWS) < 0.7
    actions = merged.action.reshape(ROWS, *merged.action.shape[2:])
    core.begin(Columns(actions, scalars, known if quarantined else None))
    order = np.array([4, 1, 5, 0, 3, 2])
    core.shuffle(order)
    core.gradient(2 * STEPS, 4 * STEPS, 0.2)  # the second minibatch: columns 5 and 0
    (stats,) = core.said()

    losses, rows = [], scalars.reshape(4, STEPS, -1)
    for column in (5, 0):
        rollout, env = batch.rollouts[column // ENVS], column % ENVS
        features, _, _ = reference.follow(rollout, env)
        action = torch.from_numpy(rollout.action[:, env])
        log_prob, entropy = reference.log_prob_and_entropy(features, action)
        before, advantage, target, _ = torch.from_numpy(rows[:, :, column])
        ratio = (log_prob - before).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        error = (reference.value(features) - target).square()
        loss = -surrogate + 0.5 * error - 0.03 * entropy
        losses.append(loss[known.reshape(STEPS, -1)[:, column]] if quarantined else loss)
    torch.cat(losses).mean().backward()
    flat = core._gradient if hasattr(core, "_gradient") else core._flat.grad.numpy()
    for p in parameter_layout(config.shape(ENVIRONMENTS[name])):
        expected = reference.given[p.name].grad.numpy()
        found = p.view(flat)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5, err_msg=p.name)
    norm = np.sqrt(np.square(flat).sum())
    assert stats.gradient_norm == pytest.approx(norm, rel=1e-5)


def test_compiler_is_kept_away_from_the_loop_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = []
    monkeypatch.setattr(torch.compiler, "disable", lambda f: hidden.append(f) or f)
    monkeypatch.setattr(torch, "compile", lambda f: f)
    config, environment = ppo(gradient="autograd"), ENVIRONMENTS["discrete"]
    _, _, batch = made(config, environment)
    assert not hidden
    learner = config.make_algorithm(environment, setup(compile=True))
    assert [f.__name__ for f in hidden] == ["_over_time"]
    assert learner.update(batch).updates == 1


# --- policies ------------------------------------------------------------------------------------


def test_policy_without_its_state_is_refused() -> None:
    _, policy, _ = made(ppo(), ENVIRONMENTS["discrete"])
    obs = np.zeros((2, 3), np.float32)
    with pytest.raises(TypeError, match="state"):
        policy.act(obs, noise=np.zeros(2, np.float32), explore=False)


# --- the run's view ------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "size"), [("none", 0), ("gru", 6), ("lstm", 12)])
def test_state_has_hidden_and_cell(cell: str, size: int) -> None:
    config = ppo(recurrent=cell)
    assert config.state_size(ENVIRONMENTS["discrete"]) == size


def test_minibatch_that_cuts_sequences_is_refused_with_those_that_fit() -> None:
    config = ppo(minibatch_size=20)
    with pytest.raises(ConfigError, match=r"rollout.steps \(12\).*got 20\. Use 12 or 24\."):
        config.check(ENVIRONMENTS["discrete"], setup())
    ppo(recurrent="none", minibatch_size=20).check(ENVIRONMENTS["discrete"], setup())
    with pytest.raises(ConfigError, match=rf"at most the rows.*Use {ROWS} or less"):
        ppo(minibatch_size=3 * ROWS + 1).check(ENVIRONMENTS["discrete"], setup())


def test_separate_torsos_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.shared_torso"):
        ppo(shared_torso=False).check(ENVIRONMENTS["discrete"], setup())


@pytest.mark.parametrize("size", [STEPS, 2 * STEPS, 4 * STEPS, ROWS])
def test_updates_granted_are_taken(size: int) -> None:
    config = ppo(minibatch_size=size, epochs=2)
    learner, _, batch = made(config, ENVIRONMENTS["discrete"])
    report = learner.update(batch)
    assert (report.updates, report.skipped) == (config.updates_granted(ROWS), 0)


def test_minibatches_are_whole_sequences_and_every_row_comes_once() -> None:
    ended = np.random.default_rng(0).random((STEPS, 6)) < 0.2
    keep = np.ones((STEPS + 1, 6), np.float32)
    keep[1:][ended] = 0
    state = np.arange(12, dtype=np.float32).reshape(6, 2)
    minibatches = Minibatches(4 * STEPS)
    nothing = np.empty(0, np.int64)
    minibatches.sequences = Sequences(state, keep, nothing, nothing)
    order = np.array([3, 0, 5, 1, 2, 4])
    rows = minibatches.shuffle(order)
    assert sorted(rows) == list(range(STEPS * 6))
    for start, stop in [(0, 4), (4, 6)]:  # the last one is smaller
        steps, columns = np.divmod(rows[start * STEPS : stop * STEPS], 6)
        assert (steps.reshape(STEPS, -1) == np.arange(STEPS)[:, None]).all()
        assert (columns.reshape(STEPS, -1) == order[start:stop]).all()
        part = minibatches.part(start * STEPS, stop * STEPS)
        np.testing.assert_array_equal(part.state, state[order[start:stop]])
        np.testing.assert_array_equal(part.keep, keep[:-1, order[start:stop]])


def test_update_flops_count_the_recurrent_layer() -> None:
    environment = ENVIRONMENTS["discrete"]
    plain, gru, lstm = (
        ppo(recurrent=cell, shared_torso=True).update_flops(environment, ROWS)
        for cell in ("none", "gru", "lstm")
    )
    heads = 6 * ROWS * (6 - 5) * (3 + 1)  # they take 6 features instead of 5
    assert gru - plain == 6 * ROWS * 3 * 6 * (5 + 6) + heads
    assert lstm - gru == 6 * ROWS * 6 * (5 + 6)
