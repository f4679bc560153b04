"""A run that begins with what was learned (``policy.from``), and stands by itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fast_core import Run, load_policy, train
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.run import resume
from fast_core.monitor.checkpoint_files import LEARNER_FILE
from fast_core.policy import beginning as policy_start
from fast_core.policy.beginning import read_start
from fast_core.system.state_file import load, pack, unpack
from tests.forms import slow_but

TASKS: dict[str, dict[str, Any]] = {
    "ppo": {
        "environment": {"id": "CartPole-v1"},
        "algorithm": {"name": "ppo", "hidden_sizes": [8], "minibatch_size": 16},
        "rollout": {"shards": 1, "envs_per_shard": 2, "steps": 16},
        "stop": {"env_steps": 64},
    },
    "sac": {
        "environment": {"id": "Pendulum-v1"},
        "algorithm": {"name": "sac", "hidden_sizes": [8], "batch_size": 8},
        "rollout": {"shards": 1, "envs_per_shard": 2, "steps": 16},
        "replay": {"capacity": 2000, "learning_starts": 32},
        "scheduler": {"replay_ratio": "1/4"},
        "stop": {"env_steps": 64},
    },
}
TASKS["sac that remembers"] = TASKS["sac"] | {
    "algorithm": TASKS["sac"]["algorithm"]
    | {"recurrent": "gru", "recurrent_size": 4, "sequence_length": 4, "burn_in": 2}
}


def run(folder: Path, task: str, name: str = "first", **overrides: Any) -> Run:
    config = {
        "name": name,
        "directory": str(folder),
        "mode": "inline",
        "evaluation": {"every_env_steps": None},
        "metrics": {"sinks": []},
        "horizon_env_steps": 256,
        **TASKS[task],
    }
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return train(config, changes).run


def begun(folder: Path, task: str, source: object, **overrides: Any) -> Run:
    return run(folder, task, "second", policy__from=str(source), **overrides)


def learner(result: Run, steps: int) -> dict[str, Any]:
    """What the learner's file of a checkpoint holds."""
    folder = Path(result.directory) / "checkpoints" / f"{steps:012}"
    state: Any = load(folder / LEARNER_FILE)["algorithm"]
    return state


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all((a["parameters"][name] == b["parameters"][name]).all() for name in a["parameters"])


@pytest.mark.parametrize("task", slow_but(["ppo", "sac"], TASKS))
def test_it_needs_what_it_began_with_no_more(task: str, tmp_path: Path) -> None:
    first = run(tmp_path, task)
    whole = begun(tmp_path, task, first.directory, stop__env_steps=128)
    parts = begun(tmp_path, task, first.directory)
    fresh = run(tmp_path, task, "fresh")
    shutil.rmtree(first.directory)
    resume(Path(parts.directory), ["stop.env_steps=128"])
    assert same(learner(parts, 128), learner(whole, 128)), "bit for bit"
    assert not same(learner(parts, 64), learner(fresh, 64))
    again = train(str(Path(whole.directory) / "config.yaml")).run
    assert same(learner(again, 128), learner(whole, 128)), "launched again from its own copy"


@pytest.mark.parametrize("task", slow_but(["ppo", "sac"], TASKS))
def test_a_file_a_checkpoint_and_other_counts_will_do(task: str, tmp_path: Path) -> None:
    first = run(tmp_path, task)
    load_policy(first.directory).save(tmp_path / "p.policy")
    checkpoint = Path(first.directory) / "checkpoints" / f"{64:012}"
    loaded = []
    for source in (tmp_path / "p.policy", checkpoint):
        result = begun(tmp_path, task, source, rollout__envs_per_shard=4, seed=5)
        config = config_file.load(
            Path(result.directory) / "config.yaml", [], algorithm_config_type, resolved=True
        )
        assert config.policy.begins_from == str(source)
        assert config.policy.loaded is not None
        assert config.policy.loaded["file"] == str(Path(result.directory) / "start.msgpack")
        loaded.append(config.policy.loaded)
    assert [each["env_steps"] for each in loaded] == [64, 64]
    assert [each["source"] for each in loaded] == [str(tmp_path / "p.policy"), str(checkpoint)]


def test_what_differs_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    first = run(tmp_path, "ppo")
    load_policy(first.directory).save(tmp_path / "p.policy")
    refused: list[tuple[dict[str, Any], str, str]] = [
        ({"algorithm__hidden_sizes": [9]}, "ppo", r"algorithm.hidden_sizes \[8\], not \[9\]"),
        ({"algorithm__activation": "relu"}, "ppo", "algorithm.activation 'tanh', not 'relu'"),
        (
            {"environment__id": "Acrobot-v1"},
            "ppo",
            r"observations box \[4\] of float32, not box \[6\]",
        ),
        ({"algorithm__layer_norm": True}, "ppo", "algorithm.layer_norm False, not True"),
        ({"algorithm__critic_sizes": [9]}, "ppo", r"'value.0.weight' of shape \(8, 4\), not \(9"),
        ({}, "sac", "actions discrete 0 to 1, not box"),
    ]
    for overrides, task, said in refused:
        with pytest.raises(ConfigError, match=f"policy.from takes .* has .*{said}"):
            begun(tmp_path, task, first.directory, **overrides)
    with pytest.raises(ConfigError, match=r"has observations box \[4\] of float32, not box \[6\]"):
        begun(tmp_path, "ppo", tmp_path / "p.policy", environment__id="Acrobot-v1")
    assert not list((tmp_path / "second").glob("*"))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy.from '.*nowhere': there is no such file"):
        begun(tmp_path, "ppo", tmp_path / "nowhere")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(CheckpointError, match="no policy of FastLoop"):
        begun(tmp_path, "ppo", tmp_path / "junk")
    first = run(tmp_path, "ppo", checkpoint__at_end=False)
    with pytest.raises(CheckpointError, match="neither a whole checkpoint nor"):
        begun(tmp_path, "ppo", first.directory)
    assert not list((tmp_path / "second").glob("*"))


def test_what_goes_on_begins_from_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, "ppo")
    second = begun(tmp_path, "ppo", first.directory)
    with pytest.raises(ConfigError, match=r"policy.from must stay None: .* policy.from="):
        resume(Path(first.directory), [f"policy.from={second.directory}"])
    path = str(Path(second.directory) / "config.yaml")
    goes_on = train(path, {"stop.env_steps": 128, "name": "third"}, resume=second.directory)
    assert goes_on.env_steps == 128
    assert not (Path(goes_on.run.directory) / "start.msgpack").exists()
    anew = train(path, {"policy.from": None}).run
    assert not (Path(anew.directory) / "start.msgpack").exists()
    assert same(learner(anew, 64), learner(first, 64)), "with first values"
    with pytest.raises(ConfigError, match="leave one of them out"):
        train(path, {"policy.from": str(first.directory) + "/"}, resume=second.directory)


def test_resuming_with_other_environments_says_how_to_begin(tmp_path: Path) -> None:
    """And what it says works."""
    first = run(tmp_path, "ppo")
    with pytest.raises(
        CheckpointError, match=rf"`fastloop launch CONFIG policy.from={first.directory}`"
    ):
        resume(Path(first.directory), ["rollout.envs_per_shard=4"])
    assert begun(tmp_path, "ppo", first.directory, rollout__envs_per_shard=4).checkpoints


def test_a_start_that_was_changed_is_refused(tmp_path: Path) -> None:
    second = begun(tmp_path, "ppo", run(tmp_path, "ppo").directory)
    start = Path(second.directory) / "start.msgpack"
    start.write_bytes(start.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="its SHA-256 is another"):
        train(str(Path(second.directory) / "config.yaml"))


def test_learners_that_can_not_begin_so_are_refused(tmp_path: Path) -> None:
    first = run(tmp_path, "ppo", algorithm={"name": "random"})
    with pytest.raises(ConfigError, match="'random' lacks begin_from and begin_with"):
        begun(tmp_path, "ppo", first.directory, algorithm={"name": "random"})


@pytest.mark.parametrize("changes", [{"statistics": 3}, {"statistics": {}}, {"parameters": 3}])
def test_a_state_that_was_made_up_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    second = begun(tmp_path, "ppo", run(tmp_path, "ppo").directory)
    config = config_file.load(
        Path(second.directory) / "config.yaml", [], algorithm_config_type, resolved=True
    )
    start, _ = read_start(config.policy.loaded or {})
    state: Any = unpack(start.learner, "it")["algorithm"]
    made = msgspec.structs.replace(start, learner=pack({"algorithm": {**state, **changes}}))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ConfigError, match="is none of"):
        patch.setattr(policy_start, "find_start", lambda _: made)
        begun(tmp_path, "ppo", "somewhere")
    assert len(list((tmp_path / "second").glob("*"))) == 1


@pytest.mark.process
def test_processes_begin_from_the_same_bits(tmp_path: Path) -> None:
    first = run(tmp_path, "ppo")
    inline, nodes = (begun(tmp_path, "ppo", first.directory, mode=m) for m in ("inline", "process"))
    assert same(learner(inline, 64), learner(nodes, 64))
    with pytest.raises(ConfigError, match=r"'value.0.weight' of shape \(8, 4\), not \(9"):
        begun(tmp_path, "ppo", first.directory, mode="process", algorithm__critic_sizes=[9])
    assert len(list((tmp_path / "second").glob("*"))) == 2


def test_nothing_is_imported_that_the_other_run_names(tmp_path: Path) -> None:
    """Whoever made it: its networks are data."""
    first = run(tmp_path, "ppo")
    config = Path(first.directory) / "config.yaml"
    text = config.read_text().replace("  name: ppo\n", "  name: not_there:Algorithm\n")
    config.write_text(text)
    assert begun(tmp_path, "ppo", first.directory).checkpoints
