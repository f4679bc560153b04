"""`AsyncTrainer` with collectors and evaluator in processes: errors, deaths, and what is left."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fast_core.errors import ConfigError, NodeFailed
from fast_core.system.forks import WARNINGS
from tests.integrations.toy_hosts import (
    Collector,
    Evaluator,
    Hanging,
    Killed,
    Learner,
    Raising,
    Simulating,
    Warned,
    run,
    toy_trainer,
)
from tests.process.harness import GONE_WITHIN_S, ROOT, eventually, processes, read_process

pytestmark = pytest.mark.process


def children() -> list[int]:
    return [each.pid for each in processes() if each.parent == os.getpid()]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    eventually(lambda: children() == before, "no process is left", GONE_WITHIN_S)


def failure(collector: Any, **changes: Any) -> NodeFailed:
    trainer = toy_trainer(collector=collector, backend="process", **changes)
    with pytest.raises(NodeFailed) as failed:
        trainer.run(max_env_step=10**6)
    return failed.value


def test_processes_act_with_the_weights_they_are_sent() -> None:
    learner = Learner()

    class Local(Evaluator):  # as in a script, where no other process can import it
        pass

    result = run(
        12,
        collector=Collector,
        learner=learner,
        evaluator=Local,
        backend="process",
        num_collectors=2,
        update_per_collect=2,
    )
    acted = [(batch[0][0], batch[0][1]) for batch in learner.batches]
    assert acted == [(rank, v) for v in (0, 4, 8) for _ in range(2) for rank in (0, 1)]
    assert result.evaluations == ((0, 0.0), (4, 4.0), (8, 8.0))
    assert result.policy is not None and result.policy.state == {"n": 12}


def test_error_comes_with_its_traceback_and_process() -> None:
    failed = failure(Raising, off_policy_degree=1)
    assert "collector-0 (process " in str(failed) and "raised in collect():" in str(failed)
    assert "toy_hosts.py" in str(failed) and "ZeroDivisionError: the third one" in str(failed)
    assert isinstance(failed.__cause__, ZeroDivisionError)


@pytest.mark.slow
def test_traceback_shows_the_lines_of_what_is_no_module_of_its_process() -> None:
    """Such as the classes of a script, which `cloudpickle` alone takes there."""

    class Local(Collector):
        def collect(self) -> Any:
            raise ValueError("here")

    said = str(failure(lambda rank, seed: Local()))
    assert f'File "{__file__}"' in said and 'raise ValueError("here")' in said


def test_killed_collector_is_named() -> None:
    failed = str(failure(Killed, off_policy_degree=1, num_collectors=2))
    assert "was killed by SIGKILL in collect()" in failed


def test_collector_leaves_the_warnings_of_a_batch_system_to_the_caller() -> None:
    heard: list[int] = []
    before = {each: signal.signal(each, lambda n, _: heard.append(n)) for each in WARNINGS}
    try:
        run(3, collector=Warned, backend="process")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert {*heard} == {signal.SIGXCPU}, "which the kernel sends to that process alone"


@pytest.mark.slow
def test_collector_that_hangs_is_named_and_killed() -> None:
    failed = failure(Hanging, work_timeout_s=5.0)
    assert "(process " in str(failed) and "did not come back from collect()" in str(failed)
    assert not getattr(failed, "__notes__", []), "nothing runs on"


def broken(rank: int, seed: int) -> Any:
    return 1 // rank


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collector", "evaluator", "kind", "said"),
    [
        (Learner, None, ConfigError, "collector-0 needs a method collect(); 'Learner' has none"),
        (broken, None, NodeFailed, "raised in its factory"),
        (Collector, Collector, ConfigError, "evaluator needs a method eval()"),
    ],
)
def test_part_that_is_made_wrong_is_refused(
    collector: Any, evaluator: Any, kind: type[Exception], said: str
) -> None:
    if collector is Learner:
        collector = functools.partial(made, Learner)
    with pytest.raises(kind) as refused:
        run(3, collector=collector, evaluator=evaluator, backend="process")
    assert said in str(refused.value)


def made(kind: Any, rank: int, seed: int) -> Any:
    return kind()


@pytest.mark.slow
def test_evaluator_elsewhere_is_not_asked_whether_to_evaluate() -> None:
    class Asked(Evaluator):
        def should_eval(self, train_iter: int) -> bool:
            return True

    parts: dict[str, Any] = {"collector": Collector, "learner": Learner(), "evaluator": Asked}
    with pytest.raises(ConfigError, match=r"Give AsyncTrainer\(should_eval=...\)"):
        run(3, **parts, backend="process")
    assert (
        run(3, **parts, backend="process", should_eval=lambda train_iter: False).evaluations == ()
    )


def test_factory_that_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(ConfigError, match="the factory of collector-0 can't be sent"):
        run(3, collector=lambda rank, seed: lock, backend="process")


class Leaving(Collector):
    """The first is at work for long, with a folder that it removes at its end; the other raises."""

    def __init__(self, folder: str, rank: int, seed: int) -> None:
        super().__init__(rank, seed)
        self.rank, self.folder = rank, tempfile.TemporaryDirectory(dir=folder)
        assert sys.argv[1:] == ["--own"], "the caller's, not those by which the process was started"
        # Only what is neither blocked nor ignored ends what a simulator has started.
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}

    def collect(self) -> Any:
        time.sleep(0.5 if self.rank else 60.0)
        raise ZeroDivisionError("the second one")

    def close(self) -> None:
        Path(self.folder.name, "..", f"closed-{self.rank}").touch()


def test_who_is_at_work_when_another_fails_leaves_as_any_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py", "--own"])
    made = functools.partial(Leaving, str(tmp_path))
    assert "ZeroDivisionError: the second one" in str(failure(made, num_collectors=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed-0", "closed-1"]


SCRIPT = """
import functools, sys
from fast_core.integrations import AsyncTrainer
from tests.integrations.toy_hosts import Evaluator, Learner, Simulating
AsyncTrainer(
    collector=functools.partial(Simulating, folder=sys.argv[1]), learner=Learner(),
    evaluator=Evaluator, backend="process", num_collectors=2, off_policy_degree=2,
).run(max_train_iter=10**9)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_nothing_outlives_the_caller(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """Neither its processes nor the simulators that they have started."""
    caller = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pids = eventually(
        lambda: len(found := [*tmp_path.iterdir()]) == 4 and found, "two and their simulators"
    )
    numbers = [int(path.name.removeprefix("pid-")) for path in pids]
    below = [each.pid for each in processes() if each.parent == caller.pid]
    assert len(below) == 4, "two collectors, an evaluator and the watchdog"
    os.kill(caller.pid, number)
    assert caller.wait(20) == status
    eventually(
        lambda: not any(read_process(pid) for pid in (*numbers, *below)),
        "all are gone",
        GONE_WITHIN_S,
    )


def test_simulators_end_with_a_run_that_ends_well(tmp_path: Path) -> None:
    run(2, collector=functools.partial(Simulating, folder=str(tmp_path)), backend="process")
    assert [path for path in tmp_path.iterdir() if read_process(int(path.name[4:]))] == []
