from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fast_core.config import MetricsConfig, SinkConfig
from fast_core.errors import ConfigError
from fast_core.messages.metrics import MetricsRow, MetricsSink, RunEnd, RunStart
from fast_core.monitor import sinks as module
from fast_core.monitor.sinks import SinkThread, check_sinks, end_all, make_sink
from tests.monitor import own_sinks
from tests.monitor.own_sinks import lines

FINISHED = RunEnd(outcome="finished", text="done", env_steps=30, best_return=2.0)


def row(env_steps: int) -> MetricsRow:
    return MetricsRow(env_steps, env_steps, 0.5, {"train/a": 1.0})


def begin(path: Path) -> RunStart:
    return RunStart("toy", path, {"seed": 3})


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def thread(
    path: Path, sink: MetricsSink, reports: list[str], *, slow_s: float = 30, most_rows: int = 100
) -> SinkThread:
    return SinkThread(
        "own", lambda: sink, begin(path), reports.append, slow_s=slow_s, most_rows=most_rows
    )


def test_sink_is_told_the_start_each_row_in_order_and_the_end(tmp_path: Path) -> None:
    reports: list[str] = []
    fed = thread(tmp_path, own_sinks.Lines(), reports)
    for step in (10, 20, 30):
        fed.put(row(step))
    fed.end(FINISHED)
    assert fed.join(20)
    told = ["start toy None 3", "row 10", "row 20", "row 30", "end finished 30 2.0"]
    assert lines(tmp_path) == told
    assert reports == [] and fed.dropped == 0


def test_failing_sink_is_told_once_with_its_cause_and_place_and_gets_later_rows(
    tmp_path: Path,
) -> None:
    reports: list[str] = []
    fed = thread(tmp_path, own_sinks.Fails(), reports)
    for count, step in enumerate((10, 20, 30), start=1):
        fed.put(row(step))
        until(lambda count=count: fed.dropped == count)  # type: ignore[misc]
    fed.end(FINISHED)
    assert fed.join(20)
    assert len(reports) == 1
    assert "'own' failed in rows(): RuntimeError: the server said no" in reports[0]
    assert "own_sinks.py, line" in reports[0]
    assert lines(tmp_path)[-1].startswith("end finished")


def test_sink_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    reports: list[str] = []
    fed = thread(tmp_path, own_sinks.Leaves(), reports)
    assert fed.join(20)
    fed.put(row(10))
    fed.end(FINISHED)
    assert fed.dropped == 1
    assert len(reports) == 1 and "failed in start(): SystemExit: 3" in reports[0]


def test_sink_that_hangs_never_makes_its_feeder_wait_and_is_told_with_its_place(
    tmp_path: Path,
) -> None:
    reports: list[str] = []
    fed = thread(tmp_path, own_sinks.Hangs("rows"), reports, slow_s=0.05, most_rows=3)
    fed.put(row(0))
    until(lambda: lines(tmp_path)[-1:] == ["row 0"])
    time.sleep(0.06)
    for step in range(1, 10):
        fed.put(row(step))
    fed.end(FINISHED)
    assert not fed.join(0.01)
    assert fed.dropped == 6
    slow, full, end = reports
    assert "takes more than 0.05 s for rows() (" in slow and "own_sinks.py, line" in slow
    assert "3 rows wait for it" in full
    assert "is left behind, 3 rows with it" in end
    assert end.endswith("raise metrics.end_timeout_s")


class Starting(own_sinks.Lines):
    """One that starts when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on, self.started = threading.Event(), threading.Event()

    def start(self, run: RunStart) -> None:
        self.go_on.wait(20)
        super().start(run)
        self.started.set()


def test_sink_that_still_starts_when_the_run_is_over_has_its_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B takes seconds to start, and all of its time was gone by then."""
    reports: list[str] = []
    sink, limits = Starting(), []
    fed = thread(tmp_path, sink, reports)
    fed.put(row(10))
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    await_start, join = SinkThread.await_start, SinkThread.join

    def starts(it: SinkThread, timeout_s: float) -> None:
        limits.append(timeout_s)
        sink.go_on.set()
        await_start(it, 20)
        assert sink.started.is_set()
        monkeypatch.setattr(module.time, "monotonic", lambda: 7.0)

    def joins(it: SinkThread, timeout_s: float) -> bool:
        limits.append(timeout_s)
        return join(it, 20)

    monkeypatch.setattr(SinkThread, "await_start", starts)
    monkeypatch.setattr(SinkThread, "join", joins)
    end_all([fed], FINISHED, 8.0)
    assert limits == [8.0, 8.0], "not what starting left of it"
    assert lines(tmp_path)[-2:] == ["row 10", "end finished 30 2.0"] and reports == []


class Asleep:
    """A sink on the far side of a slow line."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.go_on = threading.Event()

    def start(self, run: RunStart) -> None: ...

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        self.calls.append(len(rows))
        self.go_on.wait(20)

    def end(self, summary: RunEnd) -> None: ...


def test_slow_sink_gets_what_came_meanwhile_in_one_call(tmp_path: Path) -> None:
    sink = Asleep()
    fed = thread(tmp_path, sink, [])
    fed.put(row(0))
    until(lambda: sink.calls == [1])
    for step in range(1, 51):
        fed.put(row(step))
    sink.go_on.set()
    fed.end(FINISHED)
    assert fed.join(20)
    assert sink.calls == [1, 50]


MODULE = "tests.monitor.own_sinks"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SinkConfig(name="tensorbord"), ["'tensorboard', 'wandb' or a class", "'tensorbord'"]),
        (SinkConfig(name=f"{MODULE}:Line"), ["has no 'Line'", "Did you mean 'Lines'?"]),
        (SinkConfig(name=f"{MODULE}:NoEnd"), ["MetricsSink", "lacks end"]),
        (
            SinkConfig(name=f"{MODULE}:Lines", kwargs={"files": 1}),
            ["can't be made with kwargs {'files': 1}", "unexpected keyword argument"],
        ),
        (
            SinkConfig(name=f"{MODULE}:Lines", kwargs={"file": "a.csv"}),
            ["ValueError: 'a.csv' is no text file", "own_sinks.py, line"],
        ),
        (SinkConfig(name="tensorboard", kwargs={"flush": 1}), ["can't be made", "flush"]),
        (SinkConfig(name="no_such_module:Sink"), ["there is no module 'no_such_module'"]),
    ],
)
def test_sink_that_can_not_be_made_is_refused(config: SinkConfig, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        check_sinks(MetricsConfig(sinks=(SinkConfig(name=f"{MODULE}:Lines"), config)))
    text = str(error.value)
    assert text.startswith("metrics.sinks[1]")
    for word in words:
        assert word in text


def test_same_sink_twice_is_refused() -> None:
    twice = (SinkConfig(name="tensorboard"), SinkConfig(name="tensorboard"))
    with pytest.raises(ConfigError, match="names 'tensorboard' twice"):
        check_sinks(MetricsConfig(sinks=twice))


def test_sink_is_made_with_its_arguments(tmp_path: Path) -> None:
    sink = make_sink(SinkConfig(name=f"{MODULE}:Lines", kwargs={"file": "other.txt"}), "key")
    sink.start(begin(tmp_path))
    assert (tmp_path / "other.txt").exists()


def test_switch_of_before_leaves_tensorboard_out() -> None:
    assert [sink.name for sink in MetricsConfig().used_sinks] == ["tensorboard"]
    assert MetricsConfig(tensorboard=False).used_sinks == ()
