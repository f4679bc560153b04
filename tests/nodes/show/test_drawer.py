"""Environments are drawn in one thread, and one that does not come back holds up nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fast_core.nodes.show import drawer as drawer_module
from fast_core.nodes.show.drawer import Drawer

TURN_S = 0.001


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(drawer_module, "_TURN_S", TURN_S)
    return []


@pytest.fixture
def drawer(turns: list[int]) -> Iterator[Drawer]:
    made = Drawer("draws", lambda: turns.append(1))
    yield made
    made.close()


def test_every_call_is_made_in_the_same_thread(drawer: Drawer) -> None:
    threads = {drawer.call(threading.get_ident).value for _ in range(3)}
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_what_is_raised_comes_back(drawer: Drawer) -> None:
    def fail() -> None:
        raise KeyboardInterrupt("of the environment's own")

    outcome = drawer.call(fail)
    assert outcome.returned and isinstance(outcome.error, KeyboardInterrupt)
    assert drawer.call(lambda: 7) == (7, None, True)


def test_call_that_does_not_return_is_left_to_its_thread(drawer: Drawer, turns: list[int]) -> None:
    goes_on, threads = threading.Event(), []

    def hang() -> None:
        threads.append(threading.current_thread())
        goes_on.wait()

    outcome = drawer.call(hang, 10 * TURN_S)
    assert not outcome.returned and len(turns) == 10
    other = drawer.call(threading.current_thread).value
    assert other is not None and other is not threads[0]
    goes_on.set()
    threads[0].join()  # it ends by itself


def test_call_without_a_limit_shows_no_turn(drawer: Drawer, turns: list[int]) -> None:
    goes_on = threading.Event()
    timer = threading.Timer(20 * TURN_S, goes_on.set)
    timer.start()
    assert drawer.call(goes_on.wait) == (True, None, True)
    assert turns == [], "who waits for it would never be found hanging"
    timer.join()


def test_thread_ends_when_it_is_closed(drawer: Drawer) -> None:
    thread = drawer.call(threading.current_thread).value
    assert thread is not None and thread.daemon
    drawer.close()
    drawer.close()
    thread.join()
