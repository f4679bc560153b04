"""Games in words: a list of commands with a mask, told on a story that needs no interpreter."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from fast_core.clients.games.text_game import Scene
from fast_core.config import EnvironmentConfig
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from fast_core.system.text_picture import picture
from tests.clients.games.tiny_story import WON, CellarGame


def choose(game: CellarGame, command: str) -> Any:
    return game.step(np.int64(list(game.offered).index(command)))


def places(text: str, words: int = 64) -> list[int]:
    return sorted({zlib.crc32(word.encode()) % words for word in text.split()})


def test_mask_follows_the_commands_that_there_are() -> None:
    game = CellarGame()
    obs, _ = game.reset()
    assert game.offered == ("go down", "open cupboard")
    assert obs["possible"].tolist() == [1, 1, 0, 0]
    obs = choose(game, "open cupboard")[0]
    assert game.offered == ("close cupboard", "go down", "take lamp")
    assert obs["possible"].tolist() == [1, 1, 1, 0]
    assert [np.flatnonzero(bag).tolist() for bag in obs["commands"]] == [
        *map(places, game.offered),
        [],
    ]


def test_bag_has_the_words_whatever_their_case_and_signs() -> None:
    game = CellarGame()
    obs, _ = game.reset()
    text = "you are thirsty for gold in the hall cupboard is closed hold"
    assert np.flatnonzero(obs["text"]).tolist() == places(text)
    assert set(np.unique(obs["text"])) == {0, 1}


def test_reward_is_what_the_score_gains() -> None:
    game = CellarGame()
    game.reset()
    steps = [choose(game, command) for command in WON]
    assert [step[1] for step in steps] == [0, 1, 0, 1, 1]
    assert [step[2] for step in steps] == [False, False, False, False, True]
    assert steps[-1][4]["episode"] == {"won": 1.0, "score": 3.0, "left_out": 0.0}
    assert not steps[-1][0]["possible"].any(), "nothing is to be chosen at the end"
    game.reset()
    assert choose(game, "go down")[1:3] == (0.0, True), "lost without the lamp"


def test_commands_without_room_take_turns_and_are_counted() -> None:
    game = CellarGame(songs=5)
    _, info = game.reset()
    assert info == {"left_out": 3} and len(game.offered) == 4
    seen: set[str] = set(game.offered)
    for _ in range(7):
        songs = [command for command in game.offered if command.startswith("sing")]
        info = choose(game, songs[0])[4]
        seen.update(game.offered)
    assert info["episode"]["left_out"] == 3.0
    assert seen == {"go down", "open cupboard", *(f"sing song {n}" for n in range(5))}


def test_story_that_stops_without_an_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    game = CellarGame()
    game.reset()
    monkeypatch.setattr(game.story, "tell", lambda _: Scene("It is dark.", ()))
    with pytest.raises(ValueError, match=r"offers no command.*'It is dark\.'"):
        game.step(np.int64(0))


def test_action_that_is_masked_is_refused() -> None:
    game = CellarGame()
    game.reset()
    with pytest.raises(
        ValueError, match=r"one of the 2 commands .*Set environment.action_mask: possible"
    ):
        game.step(np.int64(2))


def test_it_is_shown_as_text_and_as_a_picture() -> None:
    pytest.importorskip("PIL")
    pictures = []
    game = CellarGame(render_mode="rgb_array")
    for _ in range(2):
        game.reset()
        pictures.append(game.render())
        choose(game, "open cupboard")
        pictures.append(game.render())
    assert pictures[0].shape == (420, 560, 3) and pictures[0].dtype == np.uint8
    assert np.array_equal(pictures[0], pictures[2]) and not np.array_equal(*pictures[:2])
    codes = picture("\x1b[2;31mred\x1b(B\x1b[m\x1b]0;title\x07\x08, \x1b[38:5:1mred")
    assert np.array_equal(codes, picture("red, red"))
    told = CellarGame(render_mode="ansi")
    told.reset()
    assert told.render().endswith("Score: 0\n\n> go down\n> open cupboard")


def test_it_is_an_environment_that_runs_can_use() -> None:
    game = CellarGame()
    game.close()
    assert game.story.closed
    config = EnvironmentConfig(
        id="tests.clients.games.tiny_story:CellarGame", action_mask="possible"
    )
    found = probe(config, 0)
    assert found.repeatable and found.action_mask == "possible" and found.action.n == 4


@pytest.mark.parametrize("kwargs", [{"commands": 0}, {"words": 4}, {"words": 64.0}])
def test_numbers_out_of_range_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"kwargs.{next(iter(kwargs))} .* integer from"):
        CellarGame(**kwargs)
