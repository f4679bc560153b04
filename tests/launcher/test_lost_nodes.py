"""Nodes whose death the run survives: nobody writes to them or takes them for hanging."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.config import (
    DashboardConfig,
    EnvironmentConfig,
    EnvNodesConfig,
    NodesConfig,
    RestartsConfig,
    RolloutConfig,
    SupervisionConfig,
)
from fast_core.launcher.failures.stall import StallDetector
from fast_core.launcher.shell import Shell
from fast_core.launcher.shown.display import Display
from fast_core.memory import StatsColumn
from fast_core.messages import Failed, NodeExited, Ready, Stop
from fast_core.messages.launching import Respawn, ScaleRequested
from fast_core.monitor.view import ProgressView
from fast_core.nodes.node import NodeState
from tests.launcher.test_shell import Desk
from tests.nodes.stage import make_config


class Surviving(Desk):
    """A desk that survives one death."""

    def __init__(self, folder: Path, **changes: object) -> None:
        config = make_config(
            **changes,
            environment=EnvironmentConfig(id="CartPole-v1", step_timeout_s=5.0),
            supervision=SupervisionConfig(restarts=RestartsConfig(env=1)),
            rollout=RolloutConfig(shards=5, envs_per_shard=2, steps=8),
            nodes=NodesConfig(env=EnvNodesConfig(count=3)),
        )
        super().__init__(folder, config)
        self.make_ready()

    def kill(self, node: str) -> Failed:
        report = Failed(node, "stepping", f"{node} was killed by SIGKILL", "", {})
        self.hub.gone.add(node)
        self.shell.take(NodeExited(node, "was killed by SIGKILL", reaped=True, report=report))
        return report


@pytest.fixture
def desk(tmp_path: Path) -> Surviving:
    return Surviving(tmp_path)


def shown(shell: Shell) -> ProgressView:
    known = shell.plan, shell.scheduler, shell.roster, shell.scores, shell.now
    return Display(*known, None, None).view()  # type: ignore[arg-type]


def test_screen_shows_who_executes_the_shards_now(desk: Surviving) -> None:
    def notes() -> list[str]:
        return [node.note for node in shown(desk.shell).nodes[:3]]

    assert notes() == ["1 shard", "2 shards", "2 shards"]
    desk.kill("env-2")
    assert notes() == ["1 shard", "2 shards", "0 shards"]
    desk.shell.take(Ready("env-2", 2))
    assert notes()[2] == "2 shards"


def test_node_that_was_retired_is_not_missed(
    desk: Surviving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first wake-up of the scheduler would end a run that has fewer nodes now."""
    shell = desk.shell
    monkeypatch.setattr(shell.scheduler, "next_wakeup_s", lambda: 1e-9)
    shell.roster.retire("env-2")
    assert shell.overdue() == []
    shell.roster.respawn(Respawn("env-2", 2))
    assert shell.overdue() == []


def test_newcomer_that_fails_and_does_not_come_to_its_end_is_brought_to_it(desk: Surviving) -> None:
    desk.shell.take(ScaleRequested(1, "env", 4, relative=False))
    assert [command.node for command in desk.shell.roster.take_respawns()] == ["env-3"]
    desk.shell.take(Failed("env-3", "starting", "ValueError", "", {}))
    assert desk.shell.roster.take_retired() == ["env-3"]
    desk.shell.take(NodeExited("env-3", "", reaped=True))
    assert desk.shell.roster.take_retired() == []


def test_survived_death_is_told_and_is_no_failure(desk: Surviving) -> None:
    desk.kill("env-1")
    assert desk.shell.end is None
    assert (desk.shell.roster.lost, desk.shell.failures.kept) == ({"env-1"}, [])
    assert "env-1 is gone: was killed by SIGKILL; it is started anew" in desk.screen.getvalue()
    assert [command.node for command in desk.shell.roster.take_respawns()] == ["env-1"]
    assert desk.shell.roster.take_respawns() == []
    desk.shell.take(Ready("env-1", 2))
    assert desk.shell.roster.lost == set() and "env-1 is back" in desk.screen.getvalue()


def test_refused_message_to_the_dead_does_not_end_its_successor(
    desk: Surviving, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.hub.gone.add("env-1")
    desk.shell._send("env-1", Stop("finished"))
    desk.kill("env-1")
    desk.hub.gone.clear()
    desk.shell.take(Ready("env-1", 2))
    monkeypatch.setattr("fast_core.launcher.roster.time.monotonic", lambda: 1e12)
    assert desk.shell.roster.take_unreachable() == []
    assert desk.shell.end is None


def test_message_that_the_dead_no_longer_took_is_no_failure_either(desk: Surviving) -> None:
    desk.kill("env-1")
    desk.shell.take(NodeExited("env-1", "node 'env-1' is not connected"))
    assert desk.shell.end is None and desk.shell.failures.kept == []
    assert desk.screen.getvalue().count("started anew") == 1


def test_death_that_is_not_survived_is_reported_with_what_is_known(desk: Surviving) -> None:
    desk.kill("env-1")
    report = desk.kill("env-0")
    assert desk.shell.failures.kept == [report]
    assert desk.shell.end is not None and desk.shell.end.cause == report


def test_dead_node_is_not_taken_for_one_that_hangs(
    desk: Surviving, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("fast_core.launcher.failures.stall.time.monotonic", lambda: clock[0])
    detector = StallDetector(desk.stage.plan, desk.stage.memory)
    desk.stage.memory.stats("env-1").words[StatsColumn.STATE] = NodeState.STEPPING

    def watch(lost: set[str]) -> Failed | None:
        found = None
        for _ in range(40):
            clock[0] += 1.0
            found = found or detector.check(clock[0], lost)
        return found

    assert watch({"env-1"}) is None
    failure = watch(set())
    assert failure is not None and failure.node == "env-1"


def test_optional_node_is_away_and_back_and_the_run_needs_it_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Surviving(tmp_path, dashboard=DashboardConfig(enabled=True))
    shell, page = desk.shell, "dashboard"
    assert shell.roster.away == {page}
    assert shell.end is None and shell.scheduler.statistics().phase == "training"
    monkeypatch.setattr(shell.scheduler, "next_wakeup_s", lambda: 1e-9)
    assert shell.overdue() == []
    shell.take(Ready(page, 7))
    assert (shell.roster.away, shell.roster.pids[page]) == (set(), 7)
    shell.take(Failed(page, "serving", "OSError: no room", "traceback", {}))
    assert page in shell.roster.dying and shell.end is None, "its exit is waited for"
    report = desk.kill(page)
    assert (shell.roster.away, shell.roster.lost) == ({page}, set())
    assert [each.node for each in shell.roster.take_respawns()] == [page]
    assert report.error in shell.run.crash.read_text()
    assert "the run goes on without it" in desk.screen.getvalue()
    assert shown(shell).nodes[-1].state == "away"
