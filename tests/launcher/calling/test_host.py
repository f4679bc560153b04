"""The thread that calls callbacks: order, what is asked for, what goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from fast_core.callbacks import Checkpoint, End, LiveRun, Metrics, Start
from fast_core.config import CallbackConfig, RunConfig
from fast_core.errors import ConfigError
from fast_core.launcher.calling import host
from fast_core.launcher.calling.callback import check_named
from fast_core.launcher.calling.host import CALLBACKS_FILE, Host, Reply
from fast_core.messages import Failed, Save, Saved
from fast_core.messages.launching import Asked, Told
from fast_core.system.interrupts import Interrupts
from fast_core.system.text import error_text
from tests.nodes.stage import make_config
from tests.process.harness import eventually

START = Start(Path("run"), None, 0, 0)
RATE = "algorithm.learning_rate"
OWN = "fast_core/launcher/calling/host.py"


class Office:
    """A host with callbacks, and what it has answered."""

    def __init__(self, *callbacks: object, config: RunConfig | None = None) -> None:
        self.host = Host(config or make_config(), callbacks, Path("run"))

    def begin(self, checkpoint: Path | None = None) -> tuple[str, ...]:
        return self.host.begin(checkpoint, Interrupts())

    def answers(self, count: int = 1) -> list[Reply]:
        found: list[Reply] = []

        def enough() -> bool:
            found.extend(self.host.take())
            return len(found) >= count

        eventually(enough, f"{count} answers")
        return found

    def ask(self, method: str, record: object = START, **changed: Any) -> Reply:
        self.host.changed |= changed
        self.host.tell("start", [(method, record)])
        (answer,) = self.answers()
        return answer


@pytest.fixture
def office() -> Iterator[Any]:
    made: list[Office] = []

    def open(*callbacks: object, begins: bool = True, **kwargs: Any) -> Office:
        made.append(Office(*callbacks, **kwargs))
        if begins:
            made[-1].begin()
        return made[-1]

    yield open
    for each in made:
        each.host.close()


def listening(**methods: Any) -> SimpleNamespace:
    return SimpleNamespace(**methods)


def test_methods_are_called_in_order_in_one_thread_of_their_own(office: Any) -> None:
    seen: list[tuple[str, object, str]] = []

    def note(name: str) -> Any:
        return lambda record, run: seen.append((name, record, threading.current_thread().name))

    desk = office(listening(on_start=note("a")), listening(on_start=note("b"), on_end=note("c")))
    assert desk.ask("on_start") == Told("start")
    assert seen == [("a", START, "callbacks"), ("b", START, "callbacks")]


def test_what_is_asked_for_comes_with_who_asked(office: Any) -> None:
    def ask(start: Start, run: LiveRun) -> None:
        run.stop("it is\nenough")
        run.save()
        run.change(RATE, np.float32(0.5))
        assert run.values[RATE] == 0.5

    desk = office(listening(on_start=ask))
    by = "types:SimpleNamespace.on_start"
    assert desk.ask("on_start") == Told("start", (Asked(by, "it is enough", True, {RATE: 0.5}),))


def test_callback_sees_what_was_changed_before_it(office: Any) -> None:
    seen: list[object] = []
    halve = listening(on_start=lambda start, run: run.change(RATE, run.values[RATE] / 2))
    desk = office(halve, listening(on_start=lambda start, run: seen.append(run.values[RATE])))
    desk.ask("on_start", **{RATE: 0.5})
    assert seen == [0.25]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("algorithm.learning_rte", 1, r"got 'algorithm.learning_rte'. Did you mean '.*rate'"),
        ("algorithm.gamma", 0.5, r"takes a key that may change .* got 'algorithm.gamma'"),
        (RATE, -1.0, r"must be a number above 0; got -1.0"),
        (RATE, float("nan"), r"must be a number above 0; got nan"),
        (RATE, "fast", r"must be a number above 0; got 'fast'"),
        ("environment.attributes.wind", 1, r"Attributes of the environment stand in environment"),
        ("environment.attributes.g", "low", r"must be of the kind of 9.8, .* got 'low'"),
        ("environment.attributes.g", True, r"must be of the kind of 9.8, .* got True"),
        ("environment.attributes.g", None, r"must be of the kind of 9.8, .* got None"),
        ("environment.attributes.g", object(), r"must be a number, text, .*; got <object"),
    ],
)
def test_change_that_can_not_be_is_refused(office: Any, key: str, value: object, text: str) -> None:
    config = make_config()
    environment = msgspec.structs.replace(config.environment, attributes={"g": 9.8})
    config = msgspec.structs.replace(config, environment=environment)
    caught: list[Exception] = []

    def ask(start: Start, run: LiveRun) -> None:
        with pytest.raises(ConfigError, match=text) as info:
            run.change(key, value)
        caught.append(info.value)

    desk = office(listening(on_start=ask), config=config)
    assert desk.ask("on_start") == Told("start")
    assert caught


def test_handle_is_good_until_its_method_returns(office: Any) -> None:
    kept: list[LiveRun] = []
    desk = office(listening(on_start=lambda start, run: kept.append(run)))
    desk.ask("on_start")
    with pytest.raises(RuntimeError, match=r"on_start has returned"):
        kept[0].stop("too late")


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_is_the_failure(office: Any, error: BaseException) -> None:
    def fail(start: Start, run: LiveRun) -> None:
        raise error

    ends: list[str] = []
    other = listening(on_end=lambda end, run: ends.append(end.outcome))
    desk = office(listening(on_start=fail), other)
    failed = cast(Failed, desk.ask("on_start"))
    assert failed.doing == "calling types:SimpleNamespace.on_start"
    assert error_text(error).strip().rstrip(":") in failed.error
    assert "in fail" in failed.traceback and OWN not in failed.traceback
    assert desk.host.origin(failed) is error
    desk.host.tell("start", [("on_start", START)])  # of no interest any more
    desk.host.end(END, 5.0, "key", lambda: False)
    assert desk.host.take() == []
    assert ends == ["failed"]


END = End("failed", "x", Path("run"), 0, 0, 0.0, None, None)


@pytest.mark.parametrize("where", ["_make", "_tell"])
def test_fault_of_our_own_in_the_thread_leaves_nobody_waiting(
    office: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fails(*arguments: object) -> None:
        raise TypeError("never thought of")

    made = office(listening(on_start=lambda record, run: None), begins=False)
    monkeypatch.setattr(Host, where, fails)
    if where == "_make":
        with pytest.raises(ConfigError, match="never thought of"):
            made.begin()
    else:
        made.begin()
        failed = made.ask("on_start")
        assert isinstance(failed, Failed) and "TypeError: never thought of" in failed.error
        assert not made.host.busy


def test_newest_row_of_metrics_replaces_one_that_waits(office: Any) -> None:
    go, seen = threading.Event(), list[int]()

    def slow(metrics: Metrics, run: LiveRun) -> None:
        assert go.wait(20.0)
        seen.append(metrics.env_steps)
        run.save()

    desk = office(listening(on_metrics=slow))
    desk.host.offer(Metrics(0, 0, 0.0, {}))
    eventually(lambda: desk.host._place, "the first one is being told")
    for step in range(1, 100):
        desk.host.offer(Metrics(0, step, 0.0, {}))
    go.set()
    assert len(desk.answers(2)) == 2
    assert seen == [0, 99]


def test_call_that_does_not_return_is_named_with_its_stack(office: Any) -> None:
    go = threading.Event()

    def hang(start: Start, run: LiveRun) -> None:
        go.wait(20.0)

    desk = office(listening(on_start=hang))
    assert desk.host.overdue(0.0, "key") is None, "nothing is called"
    desk.host.tell("start", [("on_start", START)])
    late = eventually(lambda: desk.host.overdue(0.0, "key"), "it is late")
    assert late.error == "types:SimpleNamespace.on_start did not return within 0 s (key)"
    assert "in hang" in late.traceback and OWN not in late.traceback
    assert desk.host.overdue(0.0, "key") is None, "once"
    go.set()


def test_call_that_was_stopped_with_the_whole_process_is_not_late(
    office: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    desk = office(listening(on_start=lambda start, run: go.wait(20.0)))
    desk.host.tell("start", [("on_start", START)])
    eventually(lambda: desk.host._place, "it is being called")
    now_s = time.monotonic()
    monkeypatch.setattr(host.time, "monotonic", lambda: now_s)
    assert desk.host.overdue(10.0, "key") is None
    now_s += 3600.0
    for _ in range(9):
        assert desk.host.overdue(10.0, "key") is None
        now_s += 1.0
    now_s += 1.0
    assert desk.host.overdue(10.0, "key") is not None
    go.set()


class Remembering:
    """Counts in a state."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None: ...

    def state_dict(self) -> dict[str, object]:
        return {"count": self.count, "array": np.arange(3)}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.count = int(str(state["count"]))


def test_what_callbacks_remember_comes_back_from_a_checkpoint(office: Any, tmp_path: Path) -> None:
    first = office(Remembering(1), listening(on_start=print), Remembering(2))
    first.host.save(Save(7, str(tmp_path)))
    assert first.answers() == [Saved("callbacks", 7, (CALLBACKS_FILE,))]
    callbacks = Remembering(), Remembering(), Remembering(5)
    assert office(*callbacks, listening(on_start=print), begins=False).begin(tmp_path) == ()
    assert [each.count for each in callbacks] == [1, 2, 5]
    name = f"{__name__}:Remembering"
    lost = "types:SimpleNamespace", name
    assert office(Remembering(), begins=False).begin(tmp_path) == lost, "nobody has these"


def test_what_was_asked_for_before_the_cut_and_not_heard_of_is_asked_again(
    office: Any, tmp_path: Path
) -> None:
    """Else a callback would remember to have asked, and nothing would have changed."""

    class Asking(Remembering):
        def on_start(self, start: Start, run: LiveRun) -> None:
            self.count += 1
            run.change(RATE, self.count / 10)

    first, callback = office(Asking()), Asking()
    told = first.ask("on_start")
    first.host.hear(told)
    unheard = first.ask("on_start")
    first.host.save(Save(7, str(tmp_path)))
    first.answers()
    second = office(callback, begins=False)
    second.begin(tmp_path)
    assert callback.count == 2
    again = second.ask("on_end")
    assert again.asked == unheard.asked
    assert second.host.changed == {RATE: 0.2}


def test_full_disk_costs_the_checkpoint_alone(office: Any, tmp_path: Path) -> None:
    desk = office(Remembering())
    desk.host.save(Save(7, str(tmp_path / "gone")))
    (saved,) = desk.answers()
    assert isinstance(saved, Saved) and "No such file" in saved.error


class Misspelt:
    def on_metric(self, metrics: Metrics, run: LiveRun) -> None: ...


class Half:
    def on_start(self, start: Start, run: LiveRun) -> None: ...

    def state_dict(self) -> dict[str, object]:
        return {}


class Unsaved(Half):
    def state_dict(self) -> dict[str, object]:
        return {"x": object()}

    def load_state_dict(self, state: dict[str, object]) -> None: ...


class Later:
    async def on_start(self, start: Start, run: LiveRun) -> None: ...


class Short:
    def on_start(self, start: Start) -> None: ...


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (Misspelt(), r"has a method on_metric, which is never called. Nearest: 'on_metrics'"),
        (object(), r"is no callback: it has none of the methods on_start, on_metrics"),
        (Half, r"must be an object; got the class Half. Make one: Half\(\)"),
        (Half(), r"has state_dict but not load_state_dict: write both, or none"),
        (Unsaved(), r"Unsaved.state_dict failed: state_dict\(\)\['x'\] is a object"),
        (Later(), r"on_start must be a plain method; it is `async def`"),
        (Short(), r"`def on_start\(self, start, run\)`; it takes \(start:"),
    ],
)
def test_what_is_no_callback_is_refused(office: Any, callback: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        office(callback)


class Torn(Half):
    @property
    def on_end(self) -> object:
        raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Half(), r"callbacks must be a list of callbacks; got .*Half object.*Put it into one"),
        (Half, r"callbacks must be a list of callbacks; got <class .*Half'>"),
        ("mine:Half", r"callbacks must be a list of callbacks; got 'mine:Half'"),
        ([Torn()], r"(?s)in on_end.*callbacks: what was given failed: ValueError: no such thing"),
    ],
)
def test_what_is_no_list_of_callbacks_is_refused(given: Any, text: str) -> None:
    host = Host(make_config(), given, Path("run"))
    try:
        with pytest.raises(ConfigError, match=text):
            host.begin(None, Interrupts())
    finally:
        host.close()


def fails(a: int) -> object:
    raise OSError("no licence")


def test_callback_of_the_configuration_that_can_not_be_made_is_refused(office: Any) -> None:
    made = CallbackConfig(name=f"{__name__}:fails", kwargs={"a": 1})
    config = msgspec.structs.replace(make_config(), callbacks=(made,))
    with pytest.raises(ConfigError, match=r"(?s)in fails.*:fails failed: OSError: no licence"):
        office(config=config)


@pytest.mark.parametrize(
    ("name", "kwargs", "text"),
    [
        ("fails", {"b": 1}, r"callbacks\[0\].kwargs do not fit .*argument: 'a'. It takes: a"),
        ("Misspelt", {}, r"callbacks\[0\] .* has a method on_metric"),
        ("Short", {}, r"`def on_start\(self, start, run\)`; it takes \(self, start:"),
        ("Later", {}, r"on_start must be a plain method; it is `async def`"),
        ("Half", {}, r"has state_dict but not load_state_dict: write both, or none"),
        ("RATE", {}, r"must be a class, or a function that makes a callback; got 'algorithm"),
        ("Remembring", {}, r"has no 'Remembring'. Did you mean 'Remembering'"),
    ],
)
def test_configuration_is_checked_before_anything_is_made(
    name: str, kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        check_named([CallbackConfig(name=f"{__name__}:{name}", kwargs=kwargs)])


class Static:
    @staticmethod
    def on_start(start: Start, run: LiveRun) -> None: ...

    @classmethod
    def on_end(cls, end: object, run: LiveRun) -> None: ...


def test_methods_that_can_be_called_are_accepted_before_anything_is_made() -> None:
    for name in ("Static", "Remembering"):
        check_named([CallbackConfig(name=f"{__name__}:{name}")])
