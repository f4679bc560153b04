"""The search beside one that is as plain as the papers, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest

from fast_core.algos.muzero.search import Found, Search
from fast_core.errors import ConfigError, PolicyError
from tests.algos.muzero.plain_search import PlainSearch

U64 = np.uint64


def mixed(x: Any) -> Any:
    """Numbers of 64 bits that look random, of others (splitmix64)."""
    with np.errstate(over="ignore"):
        x = (np.asarray(x, U64) + U64(0x9E3779B97F4A7C15)) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        return x ^ (x >> U64(31))


def uniform(x: Any) -> Any:
    return (mixed(x) >> U64(11)).astype(np.float64) / 2.0**53


@dataclass(frozen=True)
class World:
    """A model whose latents are numbers that tell all: ``[B, 1]``, and each row by itself.

    Attributes:
        actions: Of each node.
        spread: Of logits.
        scale: Of values.
        steps: Values are rounded to so many, 0: not at all.
        reward: How much rewards are beside values.
    """

    actions: int
    spread: float = 1.0
    scale: float = 1.0
    steps: int = 0
    reward: float = 0.3

    def predict(self, latent: Any) -> tuple[Any, Any, Any]:
        """Reward of the step to here, value and logits, as networks say them: in float32."""
        key = latent[:, 0].astype(U64)
        value, reward = (self._rounded(uniform(key ^ U64(k)) * 2 - 1) for k in (1, 2))
        each = mixed(key[:, None] ^ U64(3)) ^ np.arange(self.actions, dtype=U64)
        logits = self.spread * (uniform(each) * 4 - 2)
        numbers = self.reward * self.scale * reward, self.scale * value, logits
        return tuple(number.astype(np.float32) for number in numbers)

    def _rounded(self, numbers: Any) -> Any:
        return np.round(numbers * self.steps) / self.steps if self.steps else numbers

    def step(self, latent: Any, action: Any) -> tuple[Any, Any, Any, Any]:
        after = mixed(latent.astype(U64) ^ mixed(np.asarray(action).astype(U64) + U64(7))[:, None])
        return after, *self.predict(after)


@dataclass(frozen=True)
class Case:
    """Roots of one world, searched in one way."""

    seed: int
    world: World
    simulations: int
    root: Literal["gumbel", "puct"]
    two_players: bool
    masked: bool
    explore: bool
    roots: int = 8
    discount: float = 0.97
    considered: int = 16
    c_scale: float = 0.1
    least_span: float = 0.01

    @property
    def latent(self) -> Any:
        return mixed(np.arange(self.roots, dtype=U64) + U64(self.seed * 1000))[:, None]

    @property
    def inputs(self) -> dict[str, Any]:
        """What `Search.run` takes beside latents and the model."""
        rng, shape = np.random.default_rng(self.seed), (self.roots, self.world.actions)
        mask = rng.random(shape) < rng.random((self.roots, 1))
        mask[np.arange(self.roots), rng.integers(self.world.actions, size=self.roots)] = True
        noise = rng.random(shape, np.float32)
        _, value, logits = self.world.predict(self.latent)
        return {
            "logits": logits,
            "value": value,
            "mask": mask if self.masked else None,
            "noise": noise if self.explore else None,
        }

    def search(self) -> Search:
        return Search(
            self.world.actions,
            self.simulations,
            discount=self.discount,
            root=self.root,
            two_players=self.two_players,
            considered=self.considered,
            c_scale=self.c_scale,
            least_span=self.least_span,
        )

    def run(self, search: Search, rows: slice = slice(None)) -> Found:
        inputs = {k: None if v is None else v[rows] for k, v in self.inputs.items()}
        latent = self.latent[rows]
        found = search.run(latent=latent, step=self.world.step, explore=self.explore, **inputs)
        return Found(*(array.copy() for array in found))

    def plain(self, row: int) -> tuple[int, list[float], float, list[int]]:
        """The same for one root, as the papers say."""

        def model(state: Any, action: int) -> Any:
            latent, reward, value, logits = self.world.step(state, np.array([action]))
            return latent, float(reward[0]), float(value[0]), logits[0].tolist()

        search = PlainSearch(
            model,
            self.simulations,
            self.discount,
            self.root,
            self.two_players,
            self.considered,
            c_scale=self.c_scale,
            least_span=self.least_span,
        )
        inputs, latent = self.inputs, self.latent[row : row + 1]
        value, logits = float(inputs["value"][row]), inputs["logits"][row].tolist()
        mask, noise = inputs["mask"], inputs["noise"]
        return search.run(
            (latent, 0.0, value, logits),
            [True] * self.world.actions if mask is None else mask[row].tolist(),
            None if noise is None else noise[row].astype(np.float64).tolist(),
        )


def drawn(seed: int) -> Case:
    """A case of which everything is drawn."""
    rng = np.random.default_rng(seed)
    actions = int(rng.choice([2, 3, 4, 7, 16, 17, 33, 81]))
    world = World(
        actions,
        spread=float(rng.choice([0.0, 0.5, 2.0, 20.0])),
        scale=float(rng.choice([1e-3, 1.0, 100.0])),
        steps=int(rng.choice([0, 0, 1, 3])),
        reward=float(rng.choice([0.0, 0.3])),
    )
    root: Literal["gumbel", "puct"] = "gumbel" if seed % 2 else "puct"
    return Case(
        seed,
        world,
        simulations=int(rng.choice([1, 2, 5, 16, 25, 50])),
        root=root,
        two_players=bool(seed // 2 % 2),
        masked=bool(rng.integers(2)),
        explore=bool(rng.integers(4)),
        discount=float(rng.choice([0.9, 0.997, 1.0])),
        considered=int(rng.choice([1, 4, 16])),
        c_scale=float(rng.choice([0.1, 1.0])),
        least_span=float(rng.choice([0.01, 2.0])),
    )


QUICK, ALL = 13, 125  # cases of eight trees


@pytest.mark.parametrize(
    "seeds",
    [range(QUICK), pytest.param(range(QUICK, ALL), marks=pytest.mark.slow)],
    ids=["quick", "rest"],
)
def test_trees_are_those_of_a_plain_search(seeds: range) -> None:
    """Visits, values and actions are equal to the last bit: both compute in float64, and values add
    up in the same order. Policies are rounded to float32 from sums in another order."""
    for case in map(drawn, seeds):
        found = case.run(case.search())
        for row in range(case.roots):
            action, policy, value, visits = case.plain(row)
            told = f"{case}, root {row}"
            assert found.visits[row].tolist() == visits, told
            assert (found.action[row], found.value[row]) == (action, np.float32(value)), told
            np.testing.assert_allclose(found.policy[row], policy, 2e-7, 1e-12, err_msg=told)


@dataclass(frozen=True)
class Sampling(World):
    """One whose actions stand for pairs of numbers, others in each state."""

    def choices(self, latent: Any) -> Any:
        """``[B, A, 2]``."""
        each = uniform(latent ^ U64(11) ^ np.arange(2 * self.actions, dtype=U64))
        return each.reshape(len(latent), self.actions, 2).astype(np.float32)

    def step(self, latent: Any, action: Any) -> Any:
        assert action.shape == (len(latent), 2) and action.dtype == np.float32
        after, *said = super().step(latent, action.sum(axis=1) * 2**20)
        return after, *said, self.choices(after)


@pytest.mark.parametrize("seed", range(4))
def test_trees_of_sampled_actions_are_those_of_a_plain_search(seed: int) -> None:
    """Hubert et al. 2021: the actions of a tree are those that were sampled in each state."""
    case = drawn(seed)
    world = Sampling(**vars(case.world))
    choices = world.choices(case.latent)
    found = case.search().run(
        latent=case.latent, step=world.step, explore=case.explore, choices=choices, **case.inputs
    )

    class Numbered(World):
        def step(self, latent: Any, action: Any) -> Any:
            return world.step(latent, world.choices(latent)[:, action[0]])[:4]

    case = replace(case, world=Numbered(**vars(world)))
    for row in range(case.roots):
        action, _, value, visits = case.plain(row)
        assert found.visits[row].tolist() == visits
        assert (found.action[row], found.value[row]) == (action, np.float32(value))


ROOTS: tuple[Literal["gumbel", "puct"], ...] = ("gumbel", "puct")
WORLD = World(actions=5)


def plainly(root: Literal["gumbel", "puct"], **changes: Any) -> Case:
    case = Case(3, WORLD, 16, root, two_players=False, masked=True, explore=True)
    return replace(case, **changes)


@pytest.mark.parametrize("root", ROOTS)
def test_what_is_found_does_not_depend_on_the_roots_beside_it(
    root: Literal["gumbel", "puct"],
) -> None:
    case = plainly(root, roots=40)  # more than from which on other threads may run
    search = case.search()
    together = case.run(search)
    for cut in (1, 8):
        parts = [case.run(search, slice(k, k + cut)) for k in range(0, 40, cut)]
        for whole, *pieces in zip(together, *parts, strict=True):
            np.testing.assert_array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize("root", ROOTS)
def test_search_finds_the_same_again_whatever_came_between(
    root: Literal["gumbel", "puct"],
) -> None:
    case, search = plainly(root), plainly(root).search()
    first = case.run(search)
    plainly(root, seed=9, roots=20, masked=False).run(search)
    latent = np.zeros((2, 4, 3), np.float32)
    logits, value = np.zeros((2, 5), np.float32), np.zeros(2, np.float32)
    search.run(logits, value, latent, lambda x, _: (x, value, value, logits), explore=False)
    for before, after in zip(first, case.run(search), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("root", ROOTS)
def test_nothing_is_drawn_where_nothing_is_explored(root: Literal["gumbel", "puct"]) -> None:
    case, noisy = plainly(root, explore=False), plainly(root).inputs["noise"]
    inputs = case.inputs | {"noise": noisy}
    again = case.search().run(latent=case.latent, step=case.world.step, explore=False, **inputs)
    for without, given in zip(case.run(case.search()), again, strict=True):
        np.testing.assert_array_equal(without, given)


@pytest.mark.parametrize("root", ROOTS)
def test_equally_good_actions_are_taken_from_the_first_on(
    root: Literal["gumbel", "puct"],
) -> None:
    logits, value = np.zeros((1, 6), np.float32), np.ones(1, np.float32)
    mask = np.array([[False, True, True, False, True, True]])
    asked: list[int] = []

    def step(latent: Any, action: Any) -> Any:
        asked.extend(action.tolist())
        return latent, value, value, logits

    search = Search(6, 4, discount=1.0, root=root)
    found = search.run(logits, value, np.zeros((1, 1)), step, mask=mask, explore=False)
    assert asked == [1, 2, 4, 5]
    assert found.action.tolist() == [1]


def test_gumbel_root_takes_the_better_of_two_where_the_policy_has_the_worse() -> None:
    """What is improved: an action of little share whose value is greater."""
    logits = np.array([[2.0, 0.0]], np.float32)

    def step(latent: Any, action: Any) -> Any:
        latent = np.where(latent == 0, action[:, None] + 1, latent)
        value = np.where(latent[:, 0] == 2, 1.0, -1.0)
        return latent, np.zeros(1), value, np.zeros((1, 2))

    search = Search(2, 16, discount=1.0)
    latent = np.zeros((1, 1), np.int64)
    found = search.run(logits, np.zeros(1), latent, step, explore=False)
    assert found.action[0] == 1 and found.policy[0, 1] > 0.9 > 1 / (1 + np.exp(2.0))


@pytest.mark.parametrize("root", ROOTS)
def test_two_players_leave_each_other_the_worst(root: Literal["gumbel", "puct"]) -> None:
    """Nim with three stones of which one or two are taken; who takes the last wins."""

    def step(stones: Any, action: Any) -> Any:
        left = stones - action[:, None] - 1
        reward = np.where(left[:, 0] == 0, 1.0, np.where(left[:, 0] < 0, -1.0, 0.0))
        return np.maximum(left, -1), reward, np.zeros(len(left)), np.zeros((len(left), 2))

    search = Search(2, 50, discount=1.0, root=root, two_players=True)
    stones = np.array([[1], [2], [4], [5]])
    logits, value = np.zeros((4, 2)), np.zeros(4)
    found = search.run(logits, value, stones, step, explore=False)
    assert found.action.tolist() == [0, 1, 0, 1]


def refused(**changes: Any) -> str:
    case = plainly("gumbel")
    inputs = case.inputs | {"latent": case.latent, "step": case.world.step} | changes
    with pytest.raises(PolicyError) as caught:
        case.search().run(**inputs)
    return str(caught.value)


def test_root_without_an_allowed_action_is_named() -> None:
    mask = np.ones((8, 5), bool)
    mask[6] = False
    assert "root 6 of 8 has no action that is allowed" in refused(mask=mask)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (0, "the dynamics network's latent is NaN or infinite for root 2 of 8, in simulation 4"),
        (1, "the dynamics network's reward is NaN or infinite for root 2 of 8, in simulation 4"),
        (2, "the prediction network's value is NaN or infinite for root 2 of 8, in simulation 4"),
        (3, "the prediction network's logits is NaN or infinite for root 2 of 8, in simulation 4"),
    ],
)
def test_network_that_says_nan_is_named(place: int, said: str) -> None:
    calls = 0

    def step(latent: Any, action: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = [WORLD.step(latent, action)[0].astype(np.float64), *WORLD.step(latent, action)[1:]]
        if calls == 4:
            answer[place][2, ...] = np.inf if place == 2 else np.nan
            answer[2][2] = np.nan if place == 0 else answer[2][2]
        return tuple(answer)

    assert said in refused(latent=np.zeros((8, 1)), step=step)


def test_root_that_is_nan_is_named() -> None:
    value = np.zeros(8)
    value[5] = np.nan
    assert "the prediction network's value is NaN or infinite for root 5" in refused(value=value)
    latent = np.zeros((8, 1))
    latent[5] = np.nan
    said = refused(value=value, latent=latent)
    assert "the representation network's latent is NaN or infinite for root 5" in said


def test_logits_of_what_is_not_allowed_may_be_anything() -> None:
    case = plainly("gumbel")
    logits = np.where(case.inputs["mask"], case.inputs["logits"], -np.inf)
    inputs = case.inputs | {"logits": logits}
    found = case.search().run(latent=case.latent, step=case.world.step, **inputs)
    np.testing.assert_array_equal(found.policy, case.run(case.search()).policy)


@pytest.mark.parametrize(
    ("name", "number", "allowed"),
    [
        ("discount", math.nan, "0 to 1"),
        ("dirichlet_fraction", 1.5, "0 to 1"),
        ("c_scale", -1.0, "at least 0"),
        ("pb_c_init", math.inf, "at least 0"),
        ("least_span", 0.0, "above 0"),
    ],
)
def test_constant_that_makes_no_sense_is_refused(name: str, number: float, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} of a search must be {allowed}; got {number}"):
        Search(2, 16, **{"discount": 1.0, name: number})


def test_noise_that_is_no_number_is_the_least_there_is() -> None:
    noise = plainly("gumbel").inputs["noise"]
    noise[:, 0] = 0
    case, found = plainly("gumbel"), []
    for least in (0.0, np.nan):
        inputs = case.inputs | {"noise": np.where(noise == 0, np.float32(least), noise)}
        found.append(case.search().run(latent=case.latent, step=case.world.step, **inputs))
    np.testing.assert_array_equal(found[0].visits, found[1].visits)


def test_search_from_no_roots_finds_nothing() -> None:
    case = plainly("puct", roots=0)
    assert [len(array) for array in case.run(case.search())] == [0, 0, 0, 0]


def test_what_does_not_fit_is_refused() -> None:
    assert "the noise must be [8, 5]; got [8]" in refused(noise=np.zeros(8))
    assert "logits must be [8, 5]; got [8, 4]" in refused(logits=np.zeros((8, 4)))
    assert "needs noise" in refused(noise=None)
    with pytest.raises(ConfigError, match="simulations must be 1 to 65535"):
        Search(2, 65_536, discount=1.0)
    with pytest.raises(ConfigError, match="actions=0"):
        Search(0, 16, discount=1.0)
    huge = Search(1_000_000, 65_535, discount=1.0)
    with pytest.raises(PolicyError, match="take more memory than there is"):
        huge.run(np.zeros((64, 1_000_000)), np.zeros(64), np.zeros((64, 1)), WORLD.step)
