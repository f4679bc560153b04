"""Stop signals become something a poll loop can wait for."""

from __future__ import annotations

import _thread
import faulthandler
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fast_core.system import interrupts as module
from fast_core.system.forks import STOP_SIGNALS, WARNINGS
from fast_core.system.interrupts import Interrupted, Interrupts, undisturbed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    return now_s


@pytest.fixture(autouse=True)
def before() -> Iterator[None]:
    """Nothing may leak out of a test: a later Ctrl-C must reach pytest."""
    handlers = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == handlers


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def readable(interrupts: Interrupts) -> bool:
    return bool(select.select([interrupts], [], [], 0)[0])


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signal_is_counted_and_wakes(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        interrupts.check()
        assert not readable(interrupts)
        send(number)
        assert interrupts.count == 1
        assert readable(interrupts)
        interrupts.drain()
        assert not readable(interrupts)
        assert interrupts.exit_code == 128 + number
        with pytest.raises(Interrupted):
            interrupts.check()


def test_first_signal_names_the_end(clock: list[float]) -> None:
    with Interrupts() as interrupts:
        send(signal.SIGINT)
        clock[0] += 1
        send(signal.SIGTERM)
        assert (interrupts.count, interrupts.text, interrupts.exit_code) == (2, "Ctrl-C", 130)


def test_echo_of_a_signal_counts_once(clock: list[float]) -> None:
    """``timeout`` sends its signal to the command and then to the command's group."""
    with Interrupts() as interrupts:
        send(signal.SIGTERM)
        clock[0] += 0.1
        send(signal.SIGTERM)
        assert interrupts.count == 1
        clock[0] += 0.2
        send(signal.SIGTERM)
        assert interrupts.count == 2


@pytest.mark.parametrize("number", WARNINGS)
def test_warning_is_never_the_second_signal(number: signal.Signals, clock: list[float]) -> None:
    """The kernel repeats one every second, and a batch system sends it before SIGTERM."""
    with Interrupts() as interrupts:
        for _ in range(3):
            send(number)
            clock[0] += 1
        assert (interrupts.count, interrupts.text) == (1, f"signal {number.name}")
        assert interrupts.again == "Ctrl-C"
        send(signal.SIGTERM)
        assert interrupts.count == 2


@pytest.mark.parametrize("number", WARNINGS)
def test_warning_that_the_program_handles_is_left_to_it(number: signal.Signals) -> None:
    heard: list[int] = []
    previous = signal.signal(number, lambda number, _: heard.append(number))
    try:
        with Interrupts() as interrupts:
            send(number)
            interrupts.keep()
            send(number)
            assert (interrupts.count, heard) == (0, [number, number])
    finally:
        signal.signal(number, previous)


def test_warning_for_which_c_code_has_a_handler_is_left_to_it(tmp_path: Path) -> None:
    """Scripts for clusters have their stacks written so; Python shows no handler then."""
    with (tmp_path / "stacks").open("w") as file:
        faulthandler.register(signal.SIGUSR1, file)
        try:
            with Interrupts() as interrupts:
                send(signal.SIGUSR1)
                assert interrupts.count == 0
            send(signal.SIGUSR1)
        finally:
            faulthandler.unregister(signal.SIGUSR1)
    assert (tmp_path / "stacks").read_text().count("in send") == 2


def test_ignored_signal_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            send(signal.SIGHUP)
            assert interrupts.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_handlers_are_given_back_after_an_error() -> None:
    def mine(*_: object) -> None: ...

    previous = signal.signal(signal.SIGTERM, mine)
    try:
        with pytest.raises(ValueError, match="x"), Interrupts():
            raise ValueError("x")
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_outside_the_main_thread_it_waits_for_nothing() -> None:
    counts: list[int] = []

    def use() -> None:
        with Interrupts() as interrupts:
            counts.append(interrupts.count)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert counts == [0]


def test_second_signal_raises_where_asked_to(clock: list[float]) -> None:
    with Interrupts() as interrupts:
        interrupts.raises = True
        send(signal.SIGINT)
        clock[0] += 1
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_request_counts_as_the_first_signal_and_never_as_the_second(clock: list[float]) -> None:
    with Interrupts() as interrupts:
        interrupts.ask("fastloop stop")
        interrupts.ask("fastloop stop")
        assert (interrupts.count, interrupts.text, interrupts.signal) == (1, "fastloop stop", None)
        assert interrupts.again == "Ctrl-C"
        send(signal.SIGTERM)
        assert (interrupts.count, interrupts.signal) == (2, signal.SIGTERM)


def test_request_after_a_signal_changes_nothing(clock: list[float]) -> None:
    with Interrupts() as interrupts:
        send(signal.SIGINT)
        interrupts.ask("fastloop stop")
        assert (interrupts.count, interrupts.text) == (1, "Ctrl-C")
        assert interrupts.again == "Ctrl-C once more"


def test_wakeup_descriptor_is_given_back_also_when_every_signal_is_ignored() -> None:
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        with Interrupts():
            pass
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def test_end_of_processes_is_not_cut_short_by_another_ctrl_c() -> None:
    done: list[bool] = []

    def work() -> None:
        for _ in range(3):
            _thread.interrupt_main()
            time.sleep(0.02)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    assert done == [True]
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: done.append(1 // 0 > 0))
