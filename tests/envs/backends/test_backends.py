"""Backends by ``module:Class``: what they say they can, and what is wrong with one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs import make_batch
from fast_core.envs.backends import Backend, VectorStep, imported
from fast_core.envs.description import describe
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.testing import check_environment
from tests.envs.driver import Driver, lean, ones, random_actions, run
from tests.envs.own_backend import Turns


class Walk(Backend):
    """Walks on a line from where the seed says; there is no single environment of this kind."""

    seeded = True

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        self.at = np.zeros((envs, 1), np.float32)
        spaces = Box(-np.inf, np.inf, (1,)), Discrete(2)
        self.spec = describe(config, *spaces, config.kwargs.get("limit"))

    def start(self, seeds: Sequence[int]) -> object:
        return self.begin(np.arange(len(self.at)), seeds, forced=True)

    def begin(self, places: Any, seeds: Sequence[int], *, forced: bool) -> object:
        self.at[places, 0] = [seed % 5 for seed in seeds]
        return self.at[places]

    def step(self, action: Any) -> VectorStep:
        self.at[:, 0] += 2 * action - 1
        reward = -np.abs(self.at[:, 0])
        return VectorStep(self.at, reward, self.at[:, 0] == 0, np.zeros(len(self.at), np.bool_))


class Unseeded(Walk):
    """Says that nothing follows from a seed."""

    seeded = False


class Forgetful(Walk):
    """Says that it can repeat an episode, and can't."""

    begun = 0

    def begin(self, places: Any, seeds: Sequence[int], *, forced: bool) -> object:
        Forgetful.begun += 1
        self.at[places, 0] = self.begun
        return self.at[places]


class SeededOnce(Walk):
    """Draws where to begin from the seed of its first episode alone."""

    generator: Any = None

    def begin(self, places: Any, seeds: Sequence[int], *, forced: bool) -> object:
        self.generator = self.generator or np.random.default_rng(seeds[0])
        self.at[places, 0] = self.generator.integers(100, 200, len(places))
        return self.at[places]


class Told(Walk):
    """Notes what it is told to begin; its second episode begins at a value that is not finite."""

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        super().__init__(config, envs)
        self.told: list[tuple[list[int], bool]] = []

    def begin(self, places: Any, seeds: Sequence[int], *, forced: bool) -> object:
        self.told.append((places.tolist(), forced))
        self.at[places, 0] = math.nan if len(self.told) == 2 else 2 + places
        return self.at[places]


class Stepless(Backend):
    """Lacks everything but the beginning."""

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None: ...

    def start(self, seeds: Sequence[int]) -> object: ...


class Overstated(Walk):
    """Says more than it has."""

    in_place = True
    takes = frozenset({"attributes"})


class Stuck(Walk):
    """Writes where it is told to, and begins nothing."""

    in_place, partial = True, False

    def step_into(self, action: Any, **out: Any) -> dict[str, object]:
        return {}


class Unlike(Backend):
    """Is made in another way."""

    def __init__(self, envs: int) -> None: ...

    step: Any
    step = begin = start = lambda self, *args, **kwargs: None  # type: ignore[assignment]


class Undescribed(Walk):
    """Says nothing of its spaces."""

    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None: ...


class Tuples(Walk):
    """Returns what an environment of Gymnasium does."""

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], {})


class Wide(Walk):
    """Returns more than its space declares."""

    def step(self, action: Any) -> Any:
        return super().step(action)._replace(obs=np.zeros((3, 2), np.float32))


NOTHING = object()


def of(name: str, **keys: Any) -> EnvironmentConfig:
    return EnvironmentConfig(id="walk", backend=f"{__name__}:{name}", **keys)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (of("Wlak"), r"environment\.backend '.*:Wlak' can't be imported: .* Did you mean 'Walk'"),
        (of("NOTHING"), r"derived from fast_core\.envs\.backends\.Backend; .* is no class"),
        (of("EnvironmentConfig"), r"is another class\. Derive it"),
        (of("Stepless"), r"lacks begin and step, for it says that partial = True"),
        (of("Overstated"), r"lacks set_attributes and step_into, .* in_place = True"),
        (of("Stuck"), r"in_place without partial.*Set in_place to False"),
        (of("Unlike"), r"is made as Unlike\(config, envs, draws=False\): .*Let __init__ take"),
        (of("Undescribed"), r"must set self\.spec in __init__.*describe.*got None"),
        (of("Walk", attributes={"wind": 1}), r"environment\.attributes .* takes none"),
        (of("Walk", reset_options={"a": 1}), r"environment\.reset_options .* takes none"),
        (of("Walk", frame_skip=2), r"environment\.frame_skip 2 needs environment\.backend gymn"),
    ],
)
def test_what_is_wrong_with_a_backend_is_said(config: EnvironmentConfig, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_batch(config, seed=0, shard=0, envs=3)
    with pytest.raises(ConfigError, match=said):
        probe(config, 0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Tuples", r"must return a fast_core\.envs\.backends\.VectorStep; got a tuple"),
        ("Wide", r"observations of 3 environments have shape \(3, 2\).* declares shape \(1,\)"),
    ],
)
def test_what_is_wrong_with_a_step_is_said_with_the_place(name: str, said: str) -> None:
    batch = make_batch(of(name), seed=0, shard=1, envs=3)
    driver = Driver(batch, 3)
    with pytest.raises(EnvironmentFailed, match=rf"environments 0 to 2 of shard 1 .*{said}"):
        driver.run(random_actions(batch, 3, 1))


@pytest.mark.parametrize(
    ("name", "repeats"),
    [("Walk", True), ("Unseeded", False), ("Forgetful", False), ("SeededOnce", False)],
)
def test_a_backend_is_repeatable_where_it_says_so_and_does(name: str, repeats: bool) -> None:
    assert probe(of(name), 0).repeatable is repeats


def test_it_is_told_which_environments_do_not_know_that_their_episodes_ended() -> None:
    """One comes home in step 2 and begins badly, one in step 3; then the limit ends both."""
    batch: Any = make_batch(of("Told", kwargs={"limit": 3}), seed=0, shard=0, envs=2)
    Driver(batch, 2).run(np.zeros((3, 2), np.int64))
    told = batch._backend.told
    assert told == [([0, 1], True), ([0], False), ([0], True), ([1], False)]
    Driver(batch, 2).run(np.ones((3, 2), np.int64))
    assert told[4:] == [([0, 1], True), ([0, 1], True)]
    assert batch.take_episodes().quarantined == 1


def test_without_one_that_is_made_alone_policies_are_evaluated_in_a_batch() -> None:
    runner = run(make_runner(of("Walk", kwargs={"limit": 4}), episodes=5, envs=2, seed=0), ones)
    assert runner.lengths == [4] * 5
    assert all(each in (-10.0, -14.0, -18.0, -22.0, -26.0) for each in runner.returns)
    runner.close()


def test_it_is_evaluated_in_the_one_that_is_made_alone() -> None:
    config = EnvironmentConfig(id="CartPole-v1", backend=f"{Turns.__module__}:Turns")
    found = []
    for each in (config, replace(config, backend="gymnasium")):
        runner = run(make_runner(each, episodes=3, envs=2, seed=4), lean)
        found.append((type(runner), runner.returns))
        runner.close()
    assert found[0] == found[1]


def test_the_example_of_the_page_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "environments.md").read_text(encoding="utf-8")
    block = next(part for part in page.split("```python\n") if part.startswith("# walking.py"))
    (tmp_path / "walking.py").write_text(block.partition("```")[0])
    monkeypatch.chdir(tmp_path)
    config = EnvironmentConfig(id="walks", backend="walking:Walks")
    check_environment(config)
    batch = make_batch(config, seed=0, shard=0, envs=3)
    finished = Driver(batch, 3).run(np.zeros((100, 3), np.int64)).batch.take_episodes()
    assert set(finished.lengths) == set(range(1, 9))


def test_whoever_makes_environments_imports_what_steps_them_first() -> None:
    assert imported(of("Walk")) == (__name__,)
    assert imported(replace(of("Walk"), backend="envpool")) == ("envpool",)
    assert imported(replace(of("Walk"), backend="gymnasium")) == ()
