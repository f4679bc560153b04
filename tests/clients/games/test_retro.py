"""A console game in an emulator, as the game that comes with stable-retro has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete

from fast_core.clients.games.retro import RetroGame
from fast_core.config import EnvironmentConfig
from fast_core.envs.making import describe_env
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from tests.envs.driver import Driver, random_actions
from tests.forms import slow_but

retro = pytest.importorskip("stable_retro")
pytest.importorskip("cv2")
pytestmark = pytest.mark.usefixtures("what_there_is_overlooked")
GAME = "Airstriker-Genesis-v0"
FIRE: list[list[str]] = [[], ["B"], ["LEFT", "B"]]


@pytest.fixture
def made() -> Iterator[list[RetroGame]]:
    games: list[RetroGame] = []
    yield games
    for game in games:
        game.close()


def make(made: list[RetroGame], **kwargs: Any) -> RetroGame:
    made.append(RetroGame(GAME, **kwargs))
    return made[-1]


def test_step_is_so_many_frames_of_the_emulator_with_the_same_buttons(
    made: list[RetroGame],
) -> None:
    ours = make(made, actions=FIRE, noop_max=0, grayscale=False)
    first, info = ours.reset(seed=0)
    steps = [ours.step(action) for action in (1, 2, 0) * 100]
    shown = ours.render()
    ours.close()
    theirs = retro.make(GAME, use_restricted_actions=retro.Actions.ALL, render_mode="rgb_array")
    theirs.reset()
    rewards = []
    for buttons in (["B"], ["LEFT", "B"], []) * 100:
        mask = np.array([name in buttons for name in theirs.buttons])
        frames = [theirs.step(mask) for _ in range(4)]
        rewards.append(sum(frame[1] for frame in frames))
    theirs.close()
    assert [step[1] for step in steps] == rewards and sum(rewards) > 0
    assert np.array_equal(shown, frames[-1][0])
    assert steps[-1][4]["score"] == frames[-1][4]["score"]
    assert first.shape == (84, 84, 3) and first.dtype == np.uint8 and "lives" in info
    assert np.abs(steps[-1][0].mean((0, 1)) - shown.mean((0, 1))).max() < 1


SPACES: list[tuple[Any, Any]] = [
    (FIRE, Discrete(3)),
    ("discrete", Discrete(126)),
    ("multi_discrete", MultiDiscrete([3, 3, 14])),
    ("filtered", MultiBinary(12)),
]


@pytest.mark.parametrize(("actions", "space"), slow_but(SPACES[3:], SPACES))
def test_every_space_of_actions_can_be_learned_in(actions: Any, space: Any) -> None:
    kwargs = {"game": GAME, "actions": actions}
    config = EnvironmentConfig(id="fast_core.clients.games.retro:RetroGame", kwargs=kwargs)
    found = probe(config, 0)
    assert found.repeatable and found.one_per_process
    game = RetroGame(**kwargs)
    game.close()
    assert game.action_space == space


def test_open_game_is_gone_on_with() -> None:
    kwargs = {"game": GAME, "actions": FIRE, "repeat_action_probability": 0.25}
    config = EnvironmentConfig(id="fast_core.clients.games.retro:RetroGame", kwargs=kwargs)
    whole = Driver(GymnasiumBatch(config, seed=1, shard=0, envs=1), 1)
    actions = random_actions(whole.batch, 1, 40)
    state = whole.run(actions[:20]).batch.state()
    whole.run(actions[20:]).batch.close()
    batch = GymnasiumBatch(config, seed=1, shard=0, envs=1)
    obs = np.zeros_like(whole.obs[0])
    assert batch.restore(state, obs) == {}
    rest = Driver(batch, 1, obs).run(actions[20:])
    batch.close()
    assert np.array_equal(rest.obs, whole.obs[20:])


def test_games_begin_as_their_seed_says(made: list[RetroGame]) -> None:
    game = make(made, actions=FIRE)
    first = [game.reset(seed=seed)[0].tobytes() for seed in (0, 1, 2, 0, 1, 2)]
    assert first[:3] == first[3:] and len(set(first)) == 3


def test_actions_that_are_repeated_are_those_before(made: list[RetroGame]) -> None:
    shown = []
    for probability, action in ((0.0, 0), (0.999, 2), (0.0, 2)):
        game = make(made, actions=FIRE, noop_max=0, repeat_action_probability=probability)
        game.reset(seed=0)
        shown.append([game.step(action)[0].tobytes() for _ in range(20)][-1])
        game.close()
    assert shown[0] == shown[1] != shown[2], "no button was held before"


def test_turbo_fires_in_every_step(made: list[RetroGame]) -> None:
    totals = []
    for turbo in ([], ["B"]):
        game = make(made, actions=FIRE, noop_max=0, turbo=turbo)
        game.reset(seed=0)
        totals.append(sum(game.step(1)[1] for _ in range(200)))
        game.close()
    assert totals[0] == 0 < totals[1], "held, it fires once"


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"game": "Pong-Genesis-v9"}, "Airstriker-Genesis-v0"),
        ({"state": "Level7"}, "must be one that .*Level1"),
        ({"actions": [["FIRE"]]}, "names? buttons of this console .*START.*'FIRE'"),
        ({"actions": "some"}, "multi_discrete.*'some'"),
        ({"turbo": ["B"], "frame_skip": 1}, "turbo needs a frame_skip of at least 2"),
        ({"frame_skip": 0}, "frame_skip must be .* at least 1; got 0"),
        ({"repeat_action_probability": 1}, "below 1; got 1"),
    ],
)
def test_what_there_is_not_is_refused_by_its_key(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetroGame(**({"game": GAME} | kwargs))


def test_second_emulator_of_a_process_is_refused(made: list[RetroGame]) -> None:
    make(made)
    with pytest.raises(ConfigError, match="a process of its own"):
        RetroGame(GAME)


def test_run_calls_actions_by_the_buttons_that_they_press(made: list[RetroGame]) -> None:
    given: list[tuple[Any, int]] = [(FIRE, 3), ("filtered", 12), ("discrete", 126)]
    for actions, count in given:
        game = make(made, actions=actions)
        names = describe_env(game, EnvironmentConfig(id=GAME)).action_names
        assert names == tuple(
            game.get_action_meanings() if count != 12 else map(button, game.buttons)
        )
        assert len(names) == count and {"B"} < {*names}
        game.close()


def button(name: str | None) -> str:
    return name or ""
