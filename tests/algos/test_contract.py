"""Every algorithm keeps what `fast_core.testing` asks of those of a user's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.appo.config import APPOConfig, IMPALAConfig
from fast_core.algos.muzero.config import MuZeroConfig
from fast_core.algos.ppo.config import PPOConfig
from fast_core.testing import check_algorithm
from tests.algos import test_own_networks as own
from tests.algos import test_ppo_spaces as spaces
from tests.algos import test_recurrent_ppo as recurrent
from tests.algos.pixel_cases import pixel_environment
from tests.algos.replay_cases import ALL, BACKENDS, BOX, environment_for, make_config
from tests.algos.rollouts.own_losses import ClippedConfig, OwnConfig
from tests.forms import slow_but

SETUP = LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=8)
NETWORK = "tests.algos.own_networks"
MODE = SpaceSpec("discrete", (), "int64", n=3)
SEEN = SpaceSpec.composite((("position", spaces.NUMBERS), ("mode", MODE)))
WIDE = EnvironmentSpec(
    "float64", spaces.NUMBERS, SpaceSpec("box", (2, 1), "float64", low=(-1.0,), high=(1.0,))
)
OPTIONS: dict[str, Any] = {
    "normalize_observations": True,
    "learning_rate_schedule": "linear",
    "max_grad_norm": 0.5,
}
ON_POLICY = {"minibatch_size": 16, "hidden_sizes": (8, 8), "epochs": 2}


class Case(NamedTuple):
    """A configuration, and where it is tried if not in the kit's own small environments."""

    config: Any
    environments: tuple[EnvironmentSpec, ...] = ()
    quick: bool = True


def replayed(name: str, environment: EnvironmentSpec | None = None, **changes: Any) -> Case:
    seen = environment or environment_for(name)
    return Case(make_config(name, **changes), (seen,))


def ppo(kind: type[PPOConfig] = PPOConfig, *seen: EnvironmentSpec, **changes: Any) -> Case:
    return Case(kind(**{**ON_POLICY, **changes}), seen)


def composite(name: str) -> EnvironmentSpec:
    return EnvironmentSpec("parts", SEEN, environment_for(name).action)


CASES: dict[str, Case] = {}
for _backend in BACKENDS:
    for _name in ALL:
        CASES[f"{_name}, {_backend}"] = Case(make_config(_name, backend=_backend))
        case = replayed(_name, composite(_name), backend=_backend, **OPTIONS)
        quick = _backend == "numpy" or _name in ("sac", "dsact", "dqn")
        CASES[f"{_name}, {_backend}, every option"] = case._replace(quick=quick)
for _name in BOX:
    CASES[f"{_name}, a box of float64"] = replayed(_name, WIDE)
for _name in ALL:
    quick = _name == "sac"
    CASES[f"{_name}, images"] = replayed(_name, pixel_environment(_name))._replace(quick=quick)
    case = replayed(_name, pixel_environment(_name, "composite"))
    CASES[f"{_name}, images and numbers"] = case._replace(quick=_name == "dqn")
    for _network in ("Plain", "Both", "Fourier", "Quiet", "Positions"):
        case = replayed(_name, network=f"{NETWORK}:{_network}", hidden_sizes=None)
        quick = _name == "sac" or (_name, _network) == ("dqn", "Quiet")
        CASES[f"{_name}, network {_network}"] = case._replace(quick=quick)
SEARCHING: dict[str, Any] = {"hidden_sizes": (8,), "latent": 6, "batch_size": 8, "simulations": 4}
CASES["muzero"] = Case(MuZeroConfig(**SEARCHING))
for _name, _root in (("every option", "gumbel"), ("puct", "puct")):
    _given = {"bootstrap": "search", "layer_norm": True, "reanalyze": 0.3, **SEARCHING, **OPTIONS}
    config = MuZeroConfig(root=_root, **_given)
    CASES[f"muzero, {_name}"] = Case(config, (composite("dqn"),), _root == "gumbel")
for _kind in ("stacked", "composite"):
    seen = (pixel_environment("dqn", _kind),)
    CASES[f"muzero, {_kind}"] = Case(MuZeroConfig(**SEARCHING), seen, _kind == "stacked")
for _gradient in ("explicit", "autograd"):
    CASES[f"ppo, {_gradient}"] = ppo(gradient=_gradient)
    case = ppo(
        gradient=_gradient,
        learning_rate_schedule="linear",
        clip_schedule="linear",
        shared_torso=True,
        normalize_rewards=True,
        normalize_observations=True,
    )
    CASES[f"ppo, {_gradient}, every option"] = case
    sizes = {"actor_sizes": (9,), "critic_sizes": (7, 11, 6), "hidden_sizes": None}
    CASES[f"ppo, {_gradient}, sizes"] = ppo(gradient=_gradient, layer_norm=True, **sizes)
    for _kind in (APPOConfig, IMPALAConfig):
        CASES[f"{_kind.__name__}, {_gradient}"] = ppo(_kind, gradient=_gradient, epochs=1)
    for _cell in ("gru", "lstm"):
        seen = tuple(recurrent.ENVIRONMENTS.values())
        case = ppo(
            PPOConfig,
            *seen,
            gradient=_gradient,
            recurrent=_cell,
            recurrent_size=6,
            hidden_sizes=(5,),
        )
        quick = _gradient == "explicit" or _cell == "lstm"
        CASES[f"ppo, {_gradient}, {_cell}"] = case._replace(quick=quick)
for _seen in spaces.ALL:
    quick = _seen in (spaces.PARTS, spaces.REACH)
    CASES[f"ppo, {_seen.id}"] = ppo(PPOConfig, _seen, hidden_sizes=None)._replace(quick=quick)
for _network in ("Plain", "Fourier", "Dropping", "Positions", "Quiet", "Remembering"):
    CASES[f"ppo, network {_network}"] = ppo(network=f"{NETWORK}:{_network}", hidden_sizes=None)
CASES["OwnConfig"] = ppo(OwnConfig, environment_for("dqn"), learning_rate_schedule="linear")
CASES["ClippedConfig"] = ppo(ClippedConfig, learning_rate_schedule="linear")
CASES["ppo, network Parts"] = ppo(
    PPOConfig, own.MIXED, network=f"{NETWORK}:Parts", hidden_sizes=None
)
CASES["ppo, a cell sees"] = ppo(
    PPOConfig, recurrent.CAMERA, recurrent="gru", recurrent_size=6, hidden_sizes=None
)._replace(quick=False)


@pytest.mark.parametrize("name", slow_but([n for n, each in CASES.items() if each.quick], CASES))
def test_algorithm_keeps_its_contract(name: str) -> None:
    config, environments, _ = CASES[name]
    check_algorithm(config, *environments, setup=SETUP)


@pytest.mark.parametrize("name", ["dqn, numpy", "sac, torch", "ppo, explicit", "ppo, autograd"])
def test_other_seeds_begin_with_other_networks(name: str) -> None:
    config = CASES[name].config
    environment = environment_for(name.partition(",")[0])
    state: list[Any] = [
        config.make_algorithm(environment, replace(SETUP, seed=seed)).state_dict()
        for seed in (0, 1)
    ]
    for key, array in state[0]["parameters"].items():
        assert not array.any() or not np.array_equal(array, state[1]["parameters"][key]), key


def test_no_process_but_an_optimizers_imports_torch() -> None:
    """And that one not either, where the learner is NumPy's."""
    code = (
        "import sys\n"
        "from fast_core.algorithm import LearnerSetup, PolicySetup\n"
        "from fast_core.config.algorithms import REGISTRY, algorithm_config_type\n"
        "from fast_core.errors import ConfigError\n"
        "from fast_core.testing.samples import SMALL\n"
        "for name in REGISTRY:\n"
        "    config, made = algorithm_config_type(name)(), 0\n"
        "    for environment in SMALL:\n"
        "        setup = LearnerSetup(0, shards=1, envs_per_shard=1, steps=512)\n"
        "        try:\n"
        "            config.check(environment, setup)\n"
        "        except ConfigError:\n"
        "            continue\n"
        "        config.make_policy(environment, PolicySetup())\n"
        "        if not config.uses_torch(device='cpu', compile=False):\n"
        "            config.make_algorithm(environment, setup)\n"
        "        made += 1\n"
        "    assert made and 'torch' not in sys.modules, (name, made)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
