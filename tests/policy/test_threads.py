"""One policy in several threads: each call gets its own answer, and none waits for another."""

from __future__ import annotations

import copy
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread, Timer
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm import ActionOutput
from fast_core.policy import Policy, load_policy
from fast_core.policy import policy as policies
from fast_core.policy.checked import CheckedPolicy
from tests.forms import slow_but
from tests.policy.stages import KINDS, play
from tests.policy.test_policy import batch, one

QUICK = ("ppo box", "recurrent frames", "sac", "dict")


def at_once(policies: tuple[Policy, Policy], observations: list[Any], **how: bool) -> list[Any]:
    """What two calls answer that are given to what acts before either is computed or returns."""
    barrier, act = Barrier(2, timeout=60), CheckedPolicy.act
    asked = set()

    def acts(self: CheckedPolicy, obs: Any, **given: Any) -> ActionOutput:
        asked.add(self)
        barrier.wait()
        output = act(self, obs, **given)
        barrier.wait()
        return output

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(CheckedPolicy, "act", acts)
        calls = [pool.submit(p, obs, **how) for p, obs in zip(policies, observations, strict=True)]
        answers = [plain(call.result()) for call in calls]
    assert len(asked) == 2, "its arrays are written by the next call while this one computes"
    return answers


def plain(answer: Any) -> Any:
    action, state = answer
    memory = None if state is None or state.memory is None else state.memory.tolist()
    return np.asarray(action).tolist(), memory


@pytest.mark.parametrize("single", [True, False], ids=["one", "batch"])
@pytest.mark.parametrize("kind", slow_but(QUICK, KINDS))
def test_two_calls_at_once_get_each_its_own_answer(
    kind: str, single: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(tmp_path, kind, monkeypatch)
    policy = load_policy(played.file, modules=["tests"])
    shape = policy.config.noise(policy.environment).shape
    monkeypatch.setattr(policy, "_draw", lambda count, _: np.full((count, *shape), 0.3, np.float32))
    observations = [batch(policy, played.asked[step][0]) for step in (0, -1)]
    if single:
        observations = [one(rows, place) for place, rows in enumerate(observations)]
    for deterministic in (True, False):
        alone = [plain(policy(obs, deterministic=deterministic)) for obs in observations]
        for second in (policy, copy.copy(policy)):
            told = at_once((policy, second), observations, deterministic=deterministic)
            assert told == alone


def test_threads_that_ended_leave_nothing_and_draw_different_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that begins a thread for each request needs no network for each."""
    policy = load_policy(play(tmp_path, "sac", monkeypatch).file)
    drawn: list[Any] = []
    obs = np.zeros(3, np.float32)
    for _ in range(5):
        thread = Thread(target=lambda: drawn.append(policy(obs, deterministic=False)[0].tolist()))
        thread.start()
        thread.join()
    assert len({*map(tuple, drawn)}) == 5
    assert len(policy._idle) == 1
    at_once((policy, policy), [obs, obs])
    assert len(policy._idle) == 2, "as many as there were calls at once"


def test_no_more_networks_are_kept_than_the_documentation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "sac", monkeypatch).file)
    monkeypatch.setattr(policies, "MOST_IDLE", 1)
    for obs in (np.zeros(3, np.float32), np.zeros((2, 3), np.float32)):
        at_once((policy, policy), [obs, obs])
        assert len(policy._idle) == 1


def test_answers_stay_where_a_policy_of_ones_own_writes_into_the_same_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "sac", monkeypatch).file)
    taken, kept = CheckedPolicy.environment_action, np.zeros((2, 1), np.float32)

    def into_the_same(self: CheckedPolicy, action: Any) -> Any:
        kept[: len(action)] = taken(self, action)
        return kept[: len(action)]

    monkeypatch.setattr(CheckedPolicy, "environment_action", into_the_same)
    for obs in (np.ones(3, np.float32), np.ones((2, 3), np.float32)):
        answer = policy(obs)[0]
        before = answer.tolist()
        policy(-obs)
        assert answer.tolist() == before


def test_a_call_that_fails_gives_back_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "ppo", monkeypatch).file)
    good = policy(np.zeros(4, np.float32))
    for obs in (np.zeros(4, np.float32), np.zeros((2, 4), np.float32)):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(CheckedPolicy, "environment_action", lambda *_: 1 // 0)
            policy(obs)
    assert len(policy._idle) == 1
    assert policy(np.zeros(4, np.float32)) == good


def test_a_fork_acts_whatever_another_thread_was_building(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "ppo", monkeypatch).file)
    obs, begun, may_end, make = np.zeros(4, np.float32), Event(), Event(), policies.make_policy

    def slowly(*given: Any) -> CheckedPolicy:
        begun.set()
        may_end.wait(60)
        return make(*given)

    monkeypatch.setattr(policies, "make_policy", slowly)
    policy._idle.clear()  # as if a third thread had what acts
    building = Thread(target=policy, args=(obs,))
    building.start()
    begun.wait(60)
    Timer(0.2, may_end.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads, from Python 3.12 on
        child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            may_end.set()
            policy(obs)
            status = 0
        finally:
            os._exit(status)
    may_end.set()
    building.join()
    assert os.waitpid(child, 0)[1] == 0, "it waits for a thread that it does not have"
