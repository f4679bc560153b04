"""From an exception, an exit status or a row of counters to what people read."""

from __future__ import annotations

import signal
from array import array
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import gymnasium
import pytest

from fast_core.config import EnvironmentConfig, PolicyConfig
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError, EnvironmentFailed, FastLoopError
from fast_core.launcher.failures.description import describe_failure, environment_traceback
from fast_core.launcher.failures.postmortem import describe_death
from fast_core.memory import StatsColumn
from fast_core.nodes.node import Node, NodeState
from fast_core.system.progress import ALL_ENVS
from fast_core.system.watched import describe_exit
from tests.launcher.shown.test_replay_figures import replaying
from tests.nodes.stage import Stage, make_config


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """The error with a traceback, as an ``except`` gives it."""
    try:
        if cause is None:
            raise error
        try:
            raise cause
        except Exception as inner:
            raise error from inner
    except Exception as outer:
        return outer


def test_environments_own_traceback_is_shown_alone() -> None:
    error = raised(EnvironmentFailed("environment 0 failed in step 3"), ValueError("bad joint 7"))
    report = describe_failure("env-0", None, error)
    assert report.error == "environment 0 failed in step 3"
    assert report.traceback.count("Traceback") == 1
    assert report.traceback.endswith("ValueError: bad joint 7\n")
    assert report.doing == "being constructed"


def test_other_errors_keep_their_whole_chain() -> None:
    report = describe_failure("x", None, raised(KeyError("a"), OSError("disk")))
    assert report.error == "KeyError: 'a'"
    assert report.traceback.count("Traceback") == 2
    own = describe_failure("x", None, raised(FastLoopError("order refused")))
    assert own.error == "order refused"


@pytest.mark.parametrize("kind", [ValueError, FastLoopError])
def test_failure_is_bounded_whatever_was_raised(kind: type[Exception]) -> None:
    long = "x" * 5_000_000
    node = cast("Node", SimpleNamespace(doing="at work", failure_context=lambda: {"seed": long}))
    try:
        raise kind(long) from ValueError(long)
    except kind as error:
        failed = describe_failure("env-0", node, error)
    assert failed.error.endswith("x") and "characters left out" in failed.traceback
    sizes = len(failed.error), len(failed.traceback), len(failed.context["seed"])
    assert max(sizes) < 25_000


def test_environment_is_found_behind_other_errors() -> None:
    inner = raised(EnvironmentFailed("failed while it was made"), RuntimeError("no licence"))
    outer = raised(ConfigError("does not work"), inner)
    assert environment_traceback(outer).endswith("RuntimeError: no licence\n")
    assert environment_traceback(raised(ConfigError("no such environment"))) == ""


class Unmakable(gymnasium.Env[object, object]):
    def __init__(self) -> None:
        len(3)  # type: ignore[arg-type]


def test_traceback_begins_in_the_environments_own_code() -> None:
    with pytest.raises(ConfigError) as caught:
        probe(EnvironmentConfig(id=f"{__name__}:Unmakable"), 0)
    lines = environment_traceback(caught.value).splitlines()
    assert __file__ in lines[1] and lines[-1] == "TypeError: object of type 'int' has no len()"
    assert sum("File " in line for line in lines) == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "did not answer"),
        (7, "exited with status 7"),
        (-signal.SIGSEGV, "was killed by SIGSEGV"),
        (-63, "was killed by 63"),
    ],
)
def test_end_of_a_process_in_words(status: int | None, text: str) -> None:
    assert describe_exit(status) == text


def died_stepping(stage: Stage, *progress: int, group: int = 0, step: int = 4) -> Mapping[str, str]:
    """What is said of a node that died while it stepped shard 1."""
    words = stage.memory.stats("env-0").words
    words[StatsColumn.STATE], words[StatsColumn.SHARD] = NodeState.STEPPING, 1
    words[StatsColumn.SLOT], words[StatsColumn.STEP], words[StatsColumn.GROUP] = 0, step, group
    stage.memory.progress(1, group)[: len(progress)] = memoryview(array("q", progress))
    return describe_death(stage.plan, stage.memory, "env-0", "was killed", "").context


# Environment 1, step 12 of the batch; its episodes, and when they began.
AT_1 = (1, 12, 3, 4, 0, 9)


def test_death_while_stepping_tells_the_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.memory.rollouts(1).slot(0)["action"][4, 1] = 1
    at = died_stepping(stage, *AT_1)
    assert (at["shard"], at["environment"], at["episode"], at["step"]) == ("1", "1", "3", "3")
    assert at["last action"] == "1"


def test_death_while_all_environments_step_at_once_blames_none(tmp_path: Path) -> None:
    at = died_stepping(Stage(tmp_path), ALL_ENVS)
    assert at == {"shard": "1", "environment": "0 to 1"}


def test_death_while_a_group_steps_tells_the_place_in_the_shard(tmp_path: Path) -> None:
    stage = Stage(tmp_path, make_config(policy=PolicyConfig(placement="node", groups=2)))
    stage.memory.rollouts(1).slot(0)["action"][4, 1] = 1
    at = died_stepping(stage, 0, 12, 4, 9, group=1)
    assert (at["environment"], at["episode"], at["step"]) == ("1", "3", "3")
    assert at["last action"] == "1"


def test_death_of_a_node_that_appends_to_a_replay_tells_the_place_without_the_action(
    tmp_path: Path,
) -> None:
    at = died_stepping(Stage(tmp_path, replaying()), *AT_1)
    assert (at["shard"], at["environment"], at["episode"], at["step"]) == ("1", "1", "3", "3")
    assert "last action" not in at, "it lay in the memory of the dead node"


def test_death_while_waiting_tells_no_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.memory.stats("env-0").words[StatsColumn.STATE] = NodeState.WAITING
    report = describe_death(stage.plan, stage.memory, "env-0", "was killed by SIGKILL", "tail")
    assert (report.error, report.traceback) == ("env-0 was killed by SIGKILL", "tail")
    assert (report.context, report.doing) == ({}, "waiting")
