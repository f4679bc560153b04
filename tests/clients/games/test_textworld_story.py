"""Stories of TextWorld, each made once; those that play one need TextWorld and jericho."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.clients.games import stored_stories
from fast_core.clients.games.stored_stories import stored
from fast_core.clients.games.textworld_story import TextWorldGame
from fast_core.config import EnvironmentConfig
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from tests.envs.driver import Driver

THERE = bool(find_spec("textworld") and find_spec("jericho"))
needs_textworld = pytest.mark.skipif(
    not THERE, reason="TextWorld and jericho are not installed: pip install -e '.[textgame]'"
)
MAKER = """
import pathlib, sys, tempfile, time
open(tempfile.mkstemp()[1] + "-left", "w").close()
time.sleep(0.1)
pathlib.Path(sys.argv[1]).write_text(" ".join(sys.argv[2:]))
print(*{says!r})
sys.exit({status})
"""


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let something else make stories, which leaves a temporary file."""

    def let(status: int = 0, says: str = "") -> None:
        program = tmp_path / "maker.py"
        program.write_text(MAKER.format(status=status, says=says.split()))
        monkeypatch.setattr(stored_stories, "_MAKER", program)

    return let


def _store(cache: str, count: Any) -> None:
    file = stored(3, "sparse", "1.0", cache)
    with count.get_lock():
        count.value += file.read_text() == "3 sparse"


def test_story_is_made_once_and_whole_by_whoever_comes_first(maker: Any, tmp_path: Path) -> None:
    maker()
    cache = tmp_path / "cache"
    (cache / ".making-killed" / "story").mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    count = context.Value("i", 0)
    processes = [context.Process(target=_store, args=(str(cache), count)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert count.value == 3
    assert os.listdir(cache) == ["simple-sparse-3-1.0"], "nothing is left of those who make it"
    made = (cache / "simple-sparse-3-1.0" / "story.z8").stat()
    stored(3, "sparse", "1.0", str(cache))
    assert (cache / "simple-sparse-3-1.0" / "story.z8").stat() == made


def test_story_that_can_not_be_made_or_kept_is_refused(maker: Any, tmp_path: Path) -> None:
    maker(1, "Inform is ill")
    with pytest.raises(ConfigError, match=r"story of seed 3 \(status 1\):\nInform is ill"):
        stored(3, "dense", "1.0", str(tmp_path / "cache"))
    assert not os.listdir(tmp_path / "cache")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"can't be kept in '.*/file/x'.*kwargs\.cache"):
        stored(3, "dense", "1.0", str(tmp_path / "file" / "x"))


def test_cache_that_is_nowhere_is_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    with pytest.raises(ConfigError, match=r"set environment\.kwargs\.cache"):
        stored(3, "dense", "1.0", None)


@pytest.mark.parametrize(
    ("seed", "rewards", "says"),
    [
        (-1, "dense", "kwargs.seed .* got -1"),
        (1.5, "dense", r"kwargs.seed .* got 1\.5"),
        (1, "many", "kwargs.rewards .* dense, balanced, sparse; got 'many'"),
    ],
)
def test_values_that_are_not_allowed_are_refused(seed: Any, rewards: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        stored(seed, rewards, "1.0", None)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"idle": "no"}, "kwargs.idle .* true or false; got 'no'"),
        ({"file": 3}, "kwargs.file .* path, or null for none; got 3"),
        ({"cache": True}, "kwargs.cache .* path, or null for none; got True"),
    ],
)
def test_values_of_other_types_are_refused(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        TextWorldGame(**kwargs)


@pytest.mark.parametrize("missing", ["textworld", "jericho"])
def test_missing_package_is_named_with_the_command(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not THERE and missing == "textworld":
        pytest.skip("jericho, which is looked for first, is missing too")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf"{missing}.*pip install -e '.\[textgame\]'"):
        TextWorldGame()


def test_file_that_is_no_story_is_refused(tmp_path: Path) -> None:
    (tmp_path / "story.z8").touch()
    with pytest.raises(ConfigError, match=r"kwargs\.file must be .* with its NAME\.json"):
        TextWorldGame(file=str(tmp_path / "story.z8"))


@pytest.fixture(scope="module")
def cache() -> Iterator[str]:
    """A folder with the story of seed 1, which takes seconds to make."""
    with tempfile.TemporaryDirectory() as folder:
        TextWorldGame(cache=folder).close()
        yield folder


WALK = (
    "open antique trunk",
    "take old key from antique trunk",
    "unlock wooden door with old key",
    "open wooden door",
    "go east",
    "go south",
    "take milk from couch",
    "go north",
    "put milk on stove",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_textworld
def test_story_is_played_to_its_end(cache: str) -> None:
    game = TextWorldGame(cache=cache)
    obs, _ = game.reset()
    assert game.text.count("Bedroom") == 1 and "old key" in game.text, "the place and the task"
    rewards = []
    for command in WALK:
        assert obs["possible"].sum() == len(game.offered)
        assert not [each for each in game.offered if each.startswith("examine")]
        obs, reward, terminated, _, info = game.step(np.int64(game.offered.index(command)))
        rewards.append(reward)
    assert sum(rewards) == 8 and terminated
    assert info["episode"] == {"won": 1.0, "score": 8.0, "max_score": 8.0, "left_out": 0.0}
    assert ">" not in game.text and "[" not in game.text
    game.close()
    game.close()
    telling = TextWorldGame(cache=cache, idle=True)
    telling.reset()
    assert telling.offered[:2] == ("open antique trunk", "open chest drawer")
    assert {"look", "inventory"} < set(telling.offered), "after those that lead on"
    telling.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_textworld
def test_seed_makes_the_same_story_again(cache: str, tmp_path: Path) -> None:
    stories = [stored(1, "dense", "x", folder) for folder in (cache, str(tmp_path))]
    assert stories[0].read_bytes() == stories[1].read_bytes()
    other = stored(2, "dense", "x", cache)
    assert other.read_bytes() != stories[0].read_bytes()
    assert sorted(each.name for each in tmp_path.rglob("*")) == [
        "simple-dense-1-x", "story.json", "story.ni", "story.z8"
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_textworld
def test_open_story_is_gone_on_with(cache: str) -> None:
    config = EnvironmentConfig(
        id="fastloop/TextGame-v0",
        modules=("fast_core.clients.games.textworld_story",),
        kwargs={"cache": cache},
        action_mask="possible",
    )
    found = probe(config, 0)
    assert found.repeatable
    actions = np.zeros((20, 2), np.int64)
    whole = Driver(GymnasiumBatch(config, seed=1, shard=0, envs=2), 2)
    state = whole.run(actions[:10]).batch.state()
    whole.run(actions[10:]).batch.close()
    batch = GymnasiumBatch(config, seed=1, shard=0, envs=2)
    obs = np.zeros_like(whole.obs[0])
    assert batch.restore(state, obs) == {}
    rest = Driver(batch, 2, obs).run(actions[10:])
    batch.close()
    assert np.array_equal(rest.obs, whole.obs[10:])
