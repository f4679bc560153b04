"""Learners that begin with what another one has learned: all of it, or its policy alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import Beginning
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.trying.probe import probe
from tests.forms import slow_but
from tests.policy.stages import KINDS

SAC, PPO = KINDS["sac"], KINDS["ppo"]
OWN = "network: 'tests.algos.own_networks:Plain'"
FAMILIES = {
    **KINDS,
    "autograd": PPO.replace("name: ppo", "name: ppo, gradient: autograd"),
    "appo": PPO.replace("name: ppo", "name: appo"),
    "normalised dqn": KINDS["dqn"].replace("name: dqn", "name: dqn, normalize_observations: true"),
    "wide ppo": PPO,
    "wide sac": KINDS["normalised sac"],
    "td3": SAC.replace("name: sac", "name: td3"),
    "dsact": SAC.replace("name: sac", "name: dsact"),
    "torch sac": SAC.replace("name: sac", "name: sac, backend: torch"),
    "own sac": SAC.replace("name: sac, hidden_sizes: [16]", f"name: sac, {OWN}"),
}
QUICK = ("wide ppo", "wide sac", "recurrent", "sac", "normalised dqn", "torch sac")
every = pytest.mark.parametrize("kind", slow_but(QUICK, FAMILIES))


def learners(kind: str) -> tuple[Any, Any, Any]:
    """The names of what policies get, a learner that has learned something, and a new one."""
    text = f"name: t\n{FAMILIES[kind]}\nrollout: {{steps: 32}}\nstop: {{env_steps: 10_000_000}}"
    config = config_file.loads(text, [], algorithm_config_type, source="test")
    environment = config.algorithm.examine(probe(config.environment, 0))
    if kind.startswith("wide"):  # numbers are counted from an origin
        space = msgspec.structs.replace(environment.observation, dtype="float64")
        environment = msgspec.structs.replace(environment, observation=space)
    learned, new = (
        config.algorithm.make_algorithm(environment, replace(config.learner_setup, seed=seed))
        for seed in (1, 2)
    )
    state, rng = learned.state_dict(), np.random.default_rng(0)
    for key in ("first_moment", "second_moment"):
        state[key] = rng.random(np.shape(state[key])).astype(np.float32)
    moments = state.get("statistics", state).get("observations")
    if moments is not None:
        moments["count"] = 50
        moments["mean"] = rng.normal(size=np.shape(moments["mean"]))
        moments["square_sum"] = rng.uniform(50, 99, np.shape(moments["mean"]))
        if "observations" in state["parameters"]:
            mean, variance = moments["mean"], moments["square_sum"] / 50
            numbers = state["parameters"]["observations"]
            numbers[:2] = mean, 1 / np.sqrt(variance + 1e-8)
            numbers[2:] = 7  # an origin, where there is one
        elif kind.startswith("wide"):
            state["statistics"]["origin"] = np.full((2, 4), 7, np.float32)
    learned.load_state_dict(state)
    return [field.name for field in config.algorithm.policy_fields(environment)], learned, new


def published(names: list[str], learner: Any) -> dict[str, Any]:
    return dict(zip(names, map(np.array, learner.policy_parameters()), strict=True))


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], names: Any, **near: float) -> None:
    for name in names:
        np.testing.assert_allclose(found[name], wanted[name], err_msg=name, **near)


@every
def test_networks_and_statistics_are_taken_and_nothing_else(kind: str) -> None:
    names, learned, new = learners(kind)
    assert isinstance(new, Beginning)
    before, there = new.state_dict(), learned.state_dict()
    new.begin_from(there)
    state = new.state_dict()
    for key in {"parameters", "targets"} & there.keys():
        assert_equal(state[key], there[key], there[key], rtol=0)
    assert_equal(published(names, new), published(names, learned), set(names) - {"exploration"})
    for key in ("first_moment", "second_moment", "random_state", "optimizer_steps"):
        np.testing.assert_equal(state[key], before[key])
    again = learners(kind)[2]
    again.load_state_dict(state)
    np.testing.assert_equal(again.state_dict(), state, "and a checkpoint keeps it")


@every
def test_of_a_policy_alone_what_acts_is_taken(kind: str) -> None:
    names, learned, new = learners(kind)
    before = new.state_dict()["parameters"]
    new.begin_with(learned.policy_parameters(), 50)
    assert_equal(
        published(names, new), published(names, learned), set(names) - {"exploration"}, rtol=1e-6
    )
    after = new.state_dict()
    if "policy.0.weight" in before and "targets" in after:  # else critics act
        critics = [name for name in before if name.startswith("critics.")]
        assert critics
        assert_equal(after["parameters"], before, critics, rtol=0)
    elif "targets" in after:
        assert_equal(after["targets"], after["parameters"], after["targets"], rtol=0)
    else:
        assert_equal(after["parameters"], before, [n for n in before if n.startswith("value.")])
    moments = after.get("statistics", after).get("observations")
    if any(name.startswith("observation.") for name in names):
        assert moments["count"] == 50


def test_a_policy_that_was_learned_acts_from_the_first_step_on() -> None:
    names, learned, new = learners("sac")
    assert published(names, new)["exploration"] == 1, "uniformly at random, as a new one does"
    new.begin_from(learned.state_dict())
    assert published(names, new)["exploration"] == 0
