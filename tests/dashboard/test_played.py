"""The page of a run that has ended, whose policy plays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fast_core.dashboard import played as played_module
from fast_core.dashboard.played import LOOK_S, TILES, PlayedRun
from fast_core.errors import FastLoopError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.evaluation import setting_of
from fast_core.policy.loading import load_policy
from fast_core.policy.policy import Policy
from fast_core.run.frame import Frame
from tests.launcher.trained_run import Drawing, make_trained
from tests.process.harness import eventually


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return make_trained(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are few, so that the first ones come again soon."""
    monkeypatch.setattr(played_module, "EPISODES", 2 * TILES)


@pytest.fixture
def policy(run: RunDirectory) -> Policy:
    return load_policy(run.path)


@pytest.fixture
def played(run: RunDirectory, policy: Policy) -> Iterator[PlayedRun]:
    with closing(PlayedRun(run, policy, setting_of(policy))) as source:
        yield source


def frame(source: PlayedRun, tile: int, after: int = -1) -> tuple[int, Frame]:
    """The next frame of a tile."""
    found: Any = eventually(lambda: source.frame(tile, after), "a frame")
    return found


@pytest.mark.usefixtures("few")
def test_policy_acts_in_environments_that_are_looked_at(played: PlayedRun, policy: Policy) -> None:
    hello = played.hello()
    assert (hello.run.running, hello.frames, len(hello.tiles)) == (False, True, TILES)
    assert {tile.state for tile in played.now().tiles} == {"starting"}
    played.want({2: 1, 5: 1})
    number = -1
    for _ in range(4):
        number, seen = frame(played, 2, number)
        assert seen.picture is not None and seen.picture.max() == seen.step
        assert seen.action == policy(seen.obs)[0] and seen.version == policy.version == 7
    frame(played, 5)
    for _ in range(3 * 5):  # more steps than the two episodes of a tile have
        number, _ = frame(played, 2, number)
    tiles = msgspec.json.decode(msgspec.json.encode(played.now()))["tiles"]
    assert [tile["state"] for tile in tiles] == [
        "running" if n in (2, 5) else "starting" for n in range(TILES)
    ]
    assert tiles[2]["S"] is not None and tiles[2]["seed"] != tiles[5]["seed"]
    played.check()


def test_policy_rests_while_nobody_looks(
    run: RunDirectory, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    step = Drawing.step  # before there is an environment, which may keep its own
    monkeypatch.setattr(Drawing, "step", lambda self, act: steps.append(act) or step(self, act))
    with closing(PlayedRun(run, policy, setting_of(policy))) as source:
        source.want({0: 1})
        eventually(lambda: steps, "a step")
        source.want({})
        time.sleep(2 * LOOK_S)
        before = len(steps)
        time.sleep(2 * LOOK_S)
        assert len(steps) == before


def test_environment_that_can_not_be_drawn_shows_its_observation_and_says_why(
    run: RunDirectory, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Drawing] = []
    render = Drawing.render
    monkeypatch.setattr(Drawing, "render", lambda self: drawn.append(self) or render(self))
    setting = setting_of(policy, overrides=["environment.kwargs.breaks=true"])
    with closing(PlayedRun(run, policy, setting)) as source:
        source.want({0: 1})
        number, seen = frame(source, 0)
        assert seen.picture is None and seen.obs.shape == (4,)
        frame(source, 0, number)
        assert len(drawn) == 1, "it is not asked again"
        assert seen.note == "no picture: render() raised RuntimeError: no context"


def test_environment_that_fails_ends_it_with_its_reason(run: RunDirectory, policy: Policy) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("no simulator here")

    setting = replace(setting_of(policy), maker=fail)
    with closing(PlayedRun(run, policy, setting)) as source:
        eventually(lambda: source._player.error, "the error")
        with pytest.raises(FastLoopError, match=r"the policy can't play: .*no simulator here"):
            source.check()
