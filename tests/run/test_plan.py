"""What a plan says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fast_core.config import EvaluationConfig
from fast_core.launcher.prepare import scheduler_settings
from fast_core.run.parts import parts_of
from tests.nodes.stage import make_config, make_run_plan


def test_environments_slow_to_make_have_their_time(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    limit_s = plan.config.supervision.start_timeout_s
    assert replace(plan, made_s=0.9).start_timeout_s == limit_s
    slow = replace(plan, made_s=10.0)  # two nodes make two each, the evaluator two
    assert slow.start_timeout_s == limit_s + 2 * 10 * 2
    assert replace(slow, parts=parts_of(slow.config, 1)).start_timeout_s == limit_s + 2 * 10 * 4
    many = make_run_plan(tmp_path, make_config(evaluation=EvaluationConfig(envs=20)))
    assert replace(many, made_s=10.0).start_timeout_s == limit_s + 2 * 10 * 20
    others = EvaluationConfig(envs=20, environments={"a": slow.config.environment})
    both = make_run_plan(tmp_path, make_config(evaluation=others))
    assert replace(both, made_s=10.0).start_timeout_s == limit_s + 2 * 10 * 40
    assert scheduler_settings(slow, "").start_timeout_s == slow.start_timeout_s
