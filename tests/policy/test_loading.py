"""What is read of a run to act and to be evaluated."""

from __future__ import annotations

from pathlib import Path

from fast_core.policy.loading import run_config


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
