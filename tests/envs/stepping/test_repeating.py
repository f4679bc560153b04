"""Open episodes are stepped again side by side where their environments wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fast_core.envs.stepping import repeating
from fast_core.envs.stepping.repeating import Repetition, Together
from fast_core.errors import CheckpointError, EnvironmentFailed, NodeFailed

STEPS, STEP_S = 20, 0.01


def compute() -> None:
    sum(range(20_000))


def wait() -> None:
    time.sleep(STEP_S)


class Toy:
    """Environments that step again, and the threads that each was stepped in."""

    def __init__(self, step: Callable[[], None], lengths: list[int]) -> None:
        self.step, self.threads = step, [set[str]() for _ in lengths]
        self.repetitions = [
            Repetition(steps, lambda env=env, steps=steps: self._attempt(env, steps))  # type: ignore[misc]
            for env, steps in enumerate(lengths)
        ]

    def _attempt(self, env: int, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.threads[env].add(threading.current_thread().name)
            self.step()
            yield

    def run(self) -> list[int]:
        told: list[int] = []
        Together(self.repetitions, told.append).run()
        return told


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "SAMPLE_S", 5 * STEP_S)
    monkeypatch.setattr(repeating, "TELL_S", STEP_S)


def test_environments_that_wait_are_stepped_side_by_side() -> None:
    toy = Toy(wait, [STEPS] * 4)
    told = toy.run()
    assert [each.taken for each in toy.repetitions] == [STEPS] * 4
    assert [each.why for each in toy.repetitions] == [""] * 4
    assert len(set.union(*toy.threads)) == 4, "the first goes on where it began"
    assert told and told == sorted(told)


def test_environments_that_compute_stay_in_the_thread_that_made_them() -> None:
    toy = Toy(compute, [STEPS] * 4)
    toy.run()
    assert set.union(*toy.threads) == {threading.current_thread().name}


def test_one_that_raises_outside_its_own_thread_is_tried_again_within() -> None:
    home = threading.current_thread()

    def bound() -> None:
        wait()
        if threading.current_thread() is not home:
            raise EnvironmentFailed("made in another thread", {})

    toy = Toy(bound, [STEPS] * 3)
    toy.run()
    assert [(each.taken, each.why) for each in toy.repetitions] == [(STEPS, "")] * 3


def test_nothing_is_told_while_none_comes_forward() -> None:
    """Whoever is told goes on waiting; a step that never returns must come to a limit."""
    toy, told = Toy(wait, [STEPS] * 2), list[int]()

    def hang() -> Iterator[None]:
        time.sleep(STEPS * 2 * STEP_S)
        yield

    Together([*toy.repetitions, Repetition(1, hang)], told.append).run()
    assert told == sorted(set(told))


@pytest.mark.parametrize("step", [wait, compute])
def test_whoever_stops_waits_for_no_step_but_those_being_taken(step: Callable[[], None]) -> None:
    toy = Toy(step, [STEPS * 1000] * 3)
    first = toy.repetitions[0]
    Together(toy.repetitions, lambda _: None, lambda: first.taken >= STEPS).run()
    assert all(each.taken < STEPS * 1000 for each in toy.repetitions)


@pytest.mark.parametrize("error", [EnvironmentFailed("gone", {}), CheckpointError("differs")])
def test_one_that_does_not_come_back_says_why_and_the_others_do(error: Exception) -> None:
    toy = Toy(compute, [1, 2])

    def fail() -> Iterator[None]:
        yield
        raise error

    lost = Repetition(7, fail)
    assert lost.why, "as long as nothing was tried"
    toy.repetitions.append(lost)
    toy.run()
    assert [each.why for each in toy.repetitions] == ["", "", str(error)]


@pytest.mark.parametrize("cause", [NodeFailed("not ready within 2 s"), KeyboardInterrupt()])
def test_limit_or_ctrl_c_in_a_step_ends_it_all(cause: BaseException) -> None:
    """Inline they are raised in the call; that is no environment that does not come back."""

    def interrupted() -> Iterator[None]:
        yield
        raise EnvironmentFailed("in step 2", {}) from cause

    with pytest.raises(EnvironmentFailed):
        Together([Repetition(2, interrupted)], lambda _: None).run()
