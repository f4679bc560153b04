"""Nodes that a run can do without fail, hang and die: it goes on, says so, and ends in order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import TOY, Workplace

pytestmark = pytest.mark.process

CONFIG: dict[str, Any] = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "rollout": {"shards": 2, "envs_per_shard": 1, "steps": 8},
    "nodes": {"env": {"count": 1}},
    "diagnostics": {"delay_ms": 4},
    "supervision": {"restarts": {"backoff_s": 0.05, "max_backoff_s": 9}},
}


def config(steps: int, **settings: object) -> dict[str, Any]:
    extra = [{"node": "tests.process.optional:Spare", "settings": settings}]
    nodes = {**CONFIG["nodes"], "extra": extra}
    return {**CONFIG, "nodes": nodes, "stop": {"env_steps": 16 * steps}}


def test_run_begins_and_ends_although_one_fails_before_it_is_ready(workplace: Workplace) -> None:
    launched = workplace.launch(config=config(60, fault="raises")).done()
    gone = launched.told("node gone")
    assert gone and all("RuntimeError: no screen; the run goes on without it" in w for w in gone)
    assert "no screen" in launched.screen
    launched.assert_gone()


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "cause"), [("dies", "SIGKILL"), ("stops", "no more")])
def test_one_that_always_fails_is_given_up(workplace: Workplace, fault: str, cause: str) -> None:
    launched = workplace.launch("stop.time_s=9", config=config(100_000, fault=fault)).done()
    gone = launched.told("node gone")
    assert len(gone) == 6
    assert all(cause in why for why in gone)
    assert "starts it no more: it has died 6 times in a row" in gone[-1]
    assert "starts it no more" in launched.screen
    crash = (launched.run / "crash.txt").read_text()
    assert crash.count("The run went on: without") == crash.count("The run went on") == 6
    launched.assert_gone()


@pytest.mark.slow
def test_one_that_hangs_is_killed_and_comes_back(workplace: Workplace) -> None:
    settings = config(100_000, fault="hangs", once=True)
    settings["supervision"] = {**settings["supervision"], "start_timeout_s": 8}
    launched = workplace.launch("stop.time_s=14", config=settings).done()
    events = [(each["what"], each["why"]) for each in launched.events()]
    assert [what for what, _ in events if what in ("node gone", "node back")] == [
        "node gone",
        "node back",
    ]
    assert any("was not ready within 8 s" in why for what, why in events if what == "node gone")
    launched.assert_gone()


@pytest.mark.parametrize("fault", slow_but({"stops"}, ["raises", "stops"]))
def test_inline_run_goes_on_without_it(workplace: Workplace, fault: str) -> None:
    launched = workplace.launch("mode=inline", config=config(20, fault=fault)).done()
    (gone,) = (each["why"] for each in launched.events() if each["what"] == "node gone")
    assert gone.endswith("the run goes on without it")
    assert "The run went on: without spare" in (launched.run / "crash.txt").read_text()
