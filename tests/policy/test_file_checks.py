"""A policy file of somebody else: what it says is looked at before anything is made or imported."""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fast_core.errors import CheckpointError, PolicyError
from fast_core.policy import evaluate, load_policy
from tests.policy.stages import play

Change = Callable[[dict[str, Any]], None]


def rewritten(file: Path, change: Change) -> Path:
    """The policy in ``file`` with something else in it, and the digest of that."""
    policy = copy.deepcopy(msgspec.msgpack.decode(file.read_bytes())["policy"])
    change(policy)
    inner = msgspec.msgpack.encode(policy)
    envelope = {
        "fastloop_policy": 1,
        "sha256": hashlib.sha256(inner).digest(),
        "policy": msgspec.Raw(inner),
    }
    made = file.with_name("made.policy")
    made.write_bytes(msgspec.msgpack.encode(envelope))
    return made


def put(*path: Any, value: Any) -> Change:
    def change(policy: dict[str, Any]) -> None:
        at: Any = policy
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for kind in ("ppo", "mask", "recurrent frames"):
        with pytest.MonkeyPatch.context() as patch:
            found[kind] = play(tmp_path_factory.mktemp("run"), kind, patch).file
    return found


SPACE = ("environment", "observation")
MASKED = ("environment", "observation", "parts", 0, 1)
DAMAGED: list[tuple[str, Change, str]] = [
    ("ppo", put("environment", "frames", value=10**9), r"1000000000 frames .* shape \(4,\)"),
    ("ppo", put("environment", "frames", value=0), "0 frames"),
    ("ppo", put(*SPACE, "dtype", value="x"), "observation has the dtype 'x'"),
    ("ppo", put(*SPACE, "dtype", value="O"), "observation has the dtype 'O'"),
    ("ppo", put(*SPACE, "dtype", value="[('a', 'f4')]"), "observation has the dtype"),
    ("ppo", put(*SPACE, "shape", value=[1 << 40]), r"has the shape \(1099511627776,\)"),
    ("ppo", put(*SPACE, "shape", value=[-2, -2]), r"has the shape \(-2, -2\)"),
    ("ppo", put(*SPACE, "high", value=[1.0, 2.0]), r"shape \(4,\) has the bounds \(1.0, 2.0\)"),
    ("ppo", put(*SPACE, "low", value=[float("nan")] * 4), r"has the bounds \(nan"),
    ("ppo", put(*SPACE, "low", value=[float("inf")]), "lower bounds above its upper"),
    ("ppo", put("environment", "tree", value="sac"), "nested otherwise than its parts are named"),
    ("ppo", put("environment", "action_mask", value="dqn"), "mask 'dqn' is no part of"),
    ("ppo", put("environment", "action", "n", value=0), "the action has 0 choices"),
    ("ppo", put("environment", "action", "n", value=1 << 40), "has 1099511627776 choices"),
    ("ppo", put("environment", "action", "n", value=10**9), "has 1000000000 choices"),
    ("ppo", put("environment", "action", "start", value=-(1 << 63)), "the first choices"),
    ("ppo", put("environment", "id", value="\x1b[2J"), r"the name '\\x1b\[2J'"),
    ("ppo", put("parameters", 0, "shape", value=[-8, -4]), r"of shape \(-8, -4\)"),
    ("mask", put("environment", "action", "n", value=9), "not of the action's 9 choices"),
    ("mask", put(*SPACE, "dtype", value="[('x', 'f4', ())]"), "is not made of its parts"),
    ("mask", put(*MASKED, "kind", value="composite"), "part '.*' of the observation is composite"),
    ("mask", put(*MASKED, "dtype", value="V8"), "part '.*' of the observation has the dtype 'V8'"),
    ("mask", put("environment", "tree", "keys", value=["a"]), r"keys \('a',\) of 2 parts"),
    ("recurrent frames", put("environment", "frames", value=3), r"3 frames .* shape \(2, 4\)"),
]


@pytest.mark.parametrize(("kind", "change", "said"), DAMAGED)
def test_what_can_not_be_is_refused_when_it_is_read(
    files: dict[str, Path], kind: str, change: Change, said: str
) -> None:
    with pytest.raises(CheckpointError, match=f"the file is damaged .*{said}"):
        load_policy(rewritten(files[kind], change))


def test_networks_that_are_larger_than_memory_are_refused(files: dict[str, Path]) -> None:
    """Nothing in the file is of that size: acting takes no critic."""
    change = put("algorithm", "critic_sizes", value=[10**9, 10**9])
    with pytest.raises(CheckpointError, match="more than there is memory for"):
        load_policy(rewritten(files["ppo"], change))


def test_no_script_is_imported_that_a_file_names(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script_of_mine.py").write_text("open('ran', 'w')\nclass Env: ...\n")
    monkeypatch.chdir(tmp_path)
    for key in ("name", "network"):
        made = rewritten(files["ppo"], put("algorithm", key, value="script_of_mine:Env"))
        with pytest.raises(
            CheckpointError,
            match=rf"algorithm\.{key} 'script_of_mine:Env'.* modules=\['script_of_mine'\]",
        ):
            load_policy(made)
    for key, value in (
        ("id", "script_of_mine:Env"),
        ("id", "script_of_mine:Registered-v0"),
        ("modules", ["script_of_mine"]),
        ("wrappers", [{"name": "script_of_mine:Env"}]),
    ):
        policy = load_policy(rewritten(files["ppo"], put("played", key, value=value)))
        with pytest.raises(PolicyError, match=rf"environment\.{key}.*--module script_of_mine\)"):
            evaluate(policy, episodes=1)
    # Nor by what can be called in FastLoop and Gymnasium; their environments and wrappers may be.
    for key, value in (
        ("id", "fast_core.system.importing:user_module"),
        ("id", "gymnasium.envs.registration:load_env_creator"),
        ("wrappers", [{"name": "fast_core.policy:import_module"}]),
        ("wrappers", [{"name": "gymnasium.wrappers:RecordVideo"}]),
    ):
        made = rewritten(files["ppo"], put("played", key, value=value))
        made = rewritten(made, put("played", "kwargs", value={"name": "script_of_mine"}))
        with pytest.raises(PolicyError, match=rf"names code of its own: environment\.{key}"):
            evaluate(load_policy(made), episodes=1)
    assert not (tmp_path / "ran").exists()
    assert "script_of_mine" not in sys.modules


def test_environments_and_wrappers_that_come_with_fastloop_and_gymnasium_are_played_in(
    files: dict[str, Path],
) -> None:
    wrapper = [{"name": "gymnasium.wrappers:TimeLimit", "kwargs": {"max_episode_steps": 3}}]
    made = rewritten(files["ppo"], put("played", "wrappers", value=wrapper))
    for id, steps in (
        ("gymnasium.envs.classic_control.cartpole:CartPoleEnv", 3),
        ("gymnasium.envs:CartPole-v1", 3),
        ("CartPole-v1", 3),
    ):
        policy = load_policy(rewritten(made, put("played", "id", value=id)))
        assert evaluate(policy, episodes=1).lengths.tolist() == [steps]


def test_what_its_caller_names_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = play(tmp_path, "own network", monkeypatch).file
    with pytest.raises(CheckpointError, match=r"'tests\.algos\.own_networks:Plain'"):
        load_policy(file, modules=["tests.algos.own"])
    for modules in (["tests"], ["tests.algos.own_networks"]):
        assert load_policy(file, modules=modules).algorithm == "ppo"
    assert load_policy(tmp_path).algorithm == "ppo", "of a run, whose code runs in any case"


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a regular file"):
        load_policy(tmp_path / "pipe")
