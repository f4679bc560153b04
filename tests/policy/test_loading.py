"""What is read of a run to act and to be evaluated."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from fast_core import Run, load_policy
from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.run import load_run_config
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.evaluation import evaluate
from fast_core.policy.file import best_policy_path
from fast_core.policy.loading import run_config
from fast_core.system.state_file import load, save
from tests.launcher.trained_run import make_trained


def test_evaluations_elsewhere_do_not_bind_what_is_evaluated_later(tmp_path: Path) -> None:
    """As a run wrote it whose environment is a Python object; another id has no such file."""
    (tmp_path / "config.yaml").write_text(
        """
name: mine
environment: {id: Mine, pickled: environment.pkl}
algorithm: {name: ppo}
evaluation:
  environments: {test: {id: Mine, pickled: environment.pkl, kwargs: {gain: 2}}}
  score_on: test
stop: {env_steps: 100}
"""
    )
    config = run_config(tmp_path, ["environment.id=CartPole-v1"])
    assert (config.environment.id, config.environment.pickled) == ("CartPole-v1", None)


@pytest.mark.parametrize(
    "read",
    [
        lambda run: Run(run, modules=["mine"]).config,
        lambda run: load_run_config(RunDirectory(run), []),
        run_config,
        lambda run: load_policy(run, checkpoint="none"),
        lambda run: evaluate(lambda obs: 0, run),
    ],
)
def test_whoever_runs_what_a_run_names_looks_for_modules_where_it_found_them(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, modules = tmp_path / "run", tmp_path / "modules"
    run.mkdir()
    modules.mkdir()
    (run / "versions.json").write_text(json.dumps([{"modules_in": str(modules)}]))
    (run / "config.yaml").write_text("name: mine\n")  # it ends there, after it has looked
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises((CheckpointError, ConfigError)):
        read(run)
    assert sys.path[-1] == str(modules)


@pytest.mark.parametrize(
    "changes", [{"random_state": "[" * 50_000}, {"statistics": 3}, {"optimizer_steps": [1]}, {}]
)
def test_checkpoint_whose_digests_hold_but_whose_state_was_made_up_is_damaged(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    run = make_trained(tmp_path, best=False)
    (checkpoint,) = run.checkpoints.glob("0*")
    file, manifest = checkpoint / "learner.msgpack", checkpoint / "manifest.json"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    size = file.stat().st_size
    state = load(file)
    save(file, {"algorithm": {**cast("dict[str, object]", state["algorithm"]), **changes}})
    if not changes:
        save(file, {})
    text = manifest.read_text().replace(before, hashlib.sha256(file.read_bytes()).hexdigest())
    manifest.write_text(text.replace(f'"nbytes": {size}', f'"nbytes": {file.stat().st_size}'))
    with pytest.raises(CheckpointError, match="is none of its algorithm"):
        load_policy(checkpoint)


def test_best_policy_is_that_where_the_score_counts(tmp_path: Path) -> None:
    """What plays against itself wins the more, the worse it defends itself."""
    run = make_trained(tmp_path, checkpoints=2)
    for name in ("test", "other"):
        load_policy(run.path, checkpoint="newest").save(best_policy_path(run.path, name))
    assert load_policy(run.path).version == 7
    text = run.config.read_text()
    assert "score_on: null" in text
    run.config.write_text(text.replace("score_on: null", "score_on: test"))
    assert load_policy(run.path).version == 20
    assert load_policy(run.path, checkpoint="best").version == 7
    best_policy_path(run.path, "test").unlink()
    assert load_policy(run.path).version == 7
