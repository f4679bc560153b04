"""Numbers that float32 can't tell apart are learned from, acted on and judged as near ones are."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import ORIGIN, LearnerSetup, PolicySetup, ReplayBatch, RolloutBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.appo.config import APPOConfig
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import CheckpointError
from fast_core.testing.samples import rollouts
from tests.algos import replay_cases
from tests.forms import slow_but


def box(*shape: int, dtype: str = "float64") -> SpaceSpec:
    return SpaceSpec("box", shape, dtype, low=(-np.inf,), high=(np.inf,))


# Metres of a national grid, a clock in nanoseconds, and what stays as it is.
SEEN = SpaceSpec.composite(
    [
        ("plain", box(2, dtype="float32")),
        ("gear", SpaceSpec("discrete", (), "int64", n=3)),
        ("where", box(2, 2)),
        ("clock", box(dtype="int64")),
    ]
)
OFFSETS = {"where": 5.4e6, "clock": 1_700_000_000_000_000_000}
CHOICE = SpaceSpec("discrete", (), "int64", n=3)
TORQUE = SpaceSpec("box", (2,), "float32", low=(-1.0,), high=(1.0,))
OWN = "tests.algos.own_networks"
LEARNERS: dict[str, tuple[Any, ...]] = {
    "ppo": (PPOConfig, TORQUE, {}),
    "autograd": (PPOConfig, CHOICE, {"gradient": "autograd"}),
    "appo": (APPOConfig, CHOICE, {}),
    "sac": ("sac", TORQUE, {"backend": "numpy"}),
    "torch": ("dsact", TORQUE, {"backend": "torch"}),
    "own": ("td3", TORQUE, {"network": f"{OWN}:Parts"}),
}
QUICK = ["ppo", "autograd", "sac", "own"]


def near_rows(*shape: int, seed: int) -> np.ndarray:
    """Observations about 0, of numbers that stay exact beside the offsets."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(shape, SEEN.row_dtype)
    rows["plain"] = rng.normal(size=(*shape, 2))
    rows["gear"] = rng.integers(0, 3, shape)
    rows["where"] = rng.integers(-16, 17, (*shape, 2, 2)) / 64
    rows["clock"] = rng.integers(-1000, 1001, shape)
    return rows


def far(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    for name, offset in OFFSETS.items():
        rows[name] += offset
    return rows


class Case:
    """A learner with batches of observations that are near, or far."""

    def __init__(self, name: str) -> None:
        kind, action, changes = LEARNERS[name]
        self.environment = EnvironmentSpec("Test-v0", SEEN, action)
        self.replays = isinstance(kind, str)
        if self.replays:
            changes = {"normalize_observations": True, **changes}
            self.config = replay_cases.make_config(kind, **changes)
        else:
            given = {"minibatch_size": 32, "hidden_sizes": (6,), "epochs": 2}
            self.config = kind(**given, **changes)
        self.environment = self.config.examine(self.environment)

    def learner(self) -> Any:
        return self.config.make_algorithm(self.environment, LearnerSetup(0, 2, 4, 8))

    def batch(self, seed: int, *, far_away: bool) -> ReplayBatch | RolloutBatch:
        moved = far if far_away else np.copy
        if self.replays:
            batch = replay_cases.make_batch(self.environment, seed=seed)
            obs, after = (moved(near_rows(8, seed=seed + part)) for part in (100, 200))
            return replay_cases.changed(batch, obs=obs, next_obs=after)
        plain = dataclasses.replace  # actions of a policy that has learned nothing
        policy = self.policy("numpy", self.learner().policy_parameters())
        setup = LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=8)
        acted = rollouts(self.config, self.environment, policy, setup, seed).rollouts
        rows = [near_rows(9, 4, seed=seed + 100 * s) for s in (1, 2)]
        ends = [near_rows(8, 4, seed=seed + 100 * s) for s in (3, 4)]
        return RolloutBatch(
            tuple(
                plain(rollout, obs=moved(obs), final_obs=moved(end))
                for rollout, obs, end in zip(acted, rows, ends, strict=True)
            ),
            env_steps=0,
            progress=0.0,
        )

    def policy(self, backend: Any, parameters: Any) -> Any:
        if self.config.policy_backend(self.environment) == "torch":
            backend = "torch"
        policy = self.config.make_policy(self.environment, PolicySetup(backend))
        policy.load([np.array(each) for each in parameters])
        return policy

    def thinker(self, learner: Any) -> Any:
        thinker = self.config.make_thinker(self.environment)
        thinker.load([*learner.policy_parameters(), *learner.insight_parameters()])
        return thinker

    def origin(self, state: Any) -> np.ndarray:
        """Where a state has it, ``[2, size]``."""
        if self.replays:
            return state["parameters"]["observations"][2:]
        return state["statistics"]["origin"]

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """As they are encoded, in float64 or exact integers."""
        parts = [rows["plain"], np.eye(3)[rows["gear"]], rows["where"], rows["clock"][:, None]]
        return np.concatenate([each.reshape(len(rows), -1).astype("f8") for each in parts], axis=1)


OFFSET = np.array([0] * 5 + [OFFSETS["where"]] * 4 + [OFFSETS["clock"]], np.float64)


def twins(case: Case) -> tuple[Any, Any]:
    """A learner that knows its origin, and its twin, to whom the same numbers are near."""
    away, near = case.learner(), case.learner()
    assert away.update(case.batch(0, far_away=True)).updates > 0
    state = away.state_dict()
    origin = case.origin(state)
    assert (origin[0, :5] == 0).all() and (origin[0, 5:] != 0).all(), "what float32 tells stays"
    origin[0] -= OFFSET.astype(np.float32)
    # What the offset of the clock has beyond float32 is no part of its first number.
    origin[1] -= (OFFSET - OFFSET.astype(np.float32)).astype(np.float32)
    near.load_state_dict(state)
    return away, near


@pytest.mark.parametrize("name", slow_but(QUICK, LEARNERS))
def test_far_numbers_are_learned_from_as_near_ones_are(name: str) -> None:
    case = Case(name)
    away, near = twins(case)
    for seed in (1, 2):
        ours = away.update(case.batch(seed, far_away=True))
        theirs = near.update(case.batch(seed, far_away=False))
        assert ours.updates > 0 and ours.metrics == theirs.metrics
    mine, its = away.state_dict(), near.state_dict()
    for state in (mine, its):
        case.origin(state)[...] = 0
    np.testing.assert_equal(mine, its)


@pytest.mark.parametrize("name", slow_but(QUICK, LEARNERS))
def test_far_numbers_are_acted_on_and_judged_as_near_ones_are(name: str) -> None:
    case = Case(name)
    away, near = twins(case)
    for seed in range(1, 4):
        away.update(case.batch(seed, far_away=True))
        near.update(case.batch(seed, far_away=False))
    rows = near_rows(64, seed=9)
    noise = np.zeros((64, *case.config.noise(case.environment).shape), np.float32)
    for backend in ("numpy", "torch"):
        found = [
            case.policy(backend, learner.policy_parameters()).act(obs, noise=noise, explore=False)
            for learner, obs in ((away, far(rows)), (near, rows))
        ]
        np.testing.assert_equal(*found)
        kinds = [len(np.unique(each, axis=0)) for each in found[0][:2]]
        assert max(kinds) > 1, "it looks at what it sees"
    said = [
        case.thinker(learner).think(obs[:1], found[0].action[:1], None)
        for learner, obs in ((away, far(rows)), (near, rows))
    ]
    np.testing.assert_equal(*[each._asdict() for each in said])


@pytest.mark.parametrize("name", slow_but(QUICK, LEARNERS))
def test_statistics_are_those_of_the_numbers_as_the_environment_gives_them(name: str) -> None:
    case = Case(name)
    learner = case.learner()
    seen = []
    for seed in range(3):
        learner.update(case.batch(seed, far_away=True))
        near: Any = case.batch(seed, far_away=False)
        rows = [near.obs] if case.replays else [r.obs[:-1].ravel() for r in near.rollouts]
        seen.append(case.numbers(np.concatenate(rows)))
        fields = case.config.policy_fields(case.environment)
        names = [field.name for field in fields]
        said = dict(zip(names, learner.policy_parameters(), strict=True))
        # An offset is near enough to be taken off both in float64, then little is left.
        place = (said[ORIGIN][0].astype("f8") - OFFSET) + said[ORIGIN][1]
        every = np.concatenate(seen)
        deviation = every.std(axis=0)
        off = (said["observation.mean"] + place - every.mean(axis=0)) / deviation
        np.testing.assert_allclose(off[:-1], 0, atol=1e-4)
        # One batch's mean of the clock is rounded to 256 ns, as float64 has it.
        assert abs(off[-1]) < (0.3 / len(seen) if case.replays else 1e-4)
        np.testing.assert_allclose(
            said["observation.inverse_std"] * np.sqrt(deviation**2 + 1e-8), 1, rtol=2e-2
        )


@pytest.mark.parametrize("shares", [2, 3])
def test_optimizers_that_average_count_from_one_origin(shares: int) -> None:
    case = Case("sac")
    replicas = [case.learner() for _ in range(shares)]
    for step in range(3):
        parts = [case.batch(10 * step + rank, far_away=True) for rank in range(shares)]
        found = [each.gradient(part) for each, part in zip(replicas, parts, strict=True)]
        mean = np.mean(found, axis=0, dtype=np.float32)
        assert all(each.apply(mean.copy()).updates == 1 for each in replicas)
    first, *others = (each.shared_state() for each in replicas)
    for other in others:
        np.testing.assert_equal(other, first)
    deviation = 1 / first["parameters"]["observations"][1]
    np.testing.assert_allclose(deviation[5:], [*[0.149] * 4, 578], rtol=0.2)


def test_gradient_of_before_there_was_an_origin_moves_no_statistics() -> None:
    case = Case("sac")
    owner, worker = case.learner(), case.learner()
    late = worker.gradient(case.batch(0, far_away=True), turn=1).copy()
    owner.update(case.batch(1, far_away=True))
    before = owner.state_dict()
    assert owner.apply(late).updates == 1
    np.testing.assert_equal(owner.state_dict()["observations"], before["observations"])
    worker.adopt(*owner.networks(), owner.updates)
    batch = case.batch(2, far_away=True)
    np.testing.assert_equal(
        worker.gradient(batch, turn=2), owner.gradient(batch, turn=2), err_msg="it knows it now"
    )


@pytest.mark.parametrize("name", ["sac", "own"])
def test_first_batch_counts_for_who_begins_with_what_was_learned(name: str) -> None:
    """Where numbers are counted from is known already."""
    case = Case(name)
    learned, new = case.learner(), case.learner()
    learned.update(case.batch(0, far_away=True))
    new.begin_with(learned.policy_parameters(), 100)
    new.update(case.batch(1, far_away=True))
    state = new.state_dict()
    assert state["observations"]["count"] == 108
    np.testing.assert_array_equal(case.origin(state), case.origin(learned.state_dict()))


def test_what_is_near_keeps_its_bits() -> None:
    """As long as float32 tells numbers apart, it does not matter that they have more digits."""
    case, plain = Case("ppo"), Case("ppo")
    plain.config = msgspec.structs.replace(plain.config, center_observations=False)
    ours, theirs = case.learner(), plain.learner()
    for seed in range(3):
        batch = case.batch(seed, far_away=False)
        assert ours.update(batch).metrics == theirs.update(batch).metrics
    for mine, its in zip(ours.policy_parameters(), theirs.policy_parameters(), strict=False):
        np.testing.assert_array_equal(mine, its)


def test_state_of_before_is_continued_and_another_layout_is_refused() -> None:
    case = Case("ppo")
    learner = case.learner()
    learner.update(case.batch(0, far_away=False))
    state = learner.state_dict()
    assert "origin" not in state["statistics"], "as before, where there is none"
    case.learner().load_state_dict(state)
    replays = Case("sac")
    old = msgspec.structs.replace(replays.config, center_observations=False)
    state = old.make_algorithm(replays.environment, LearnerSetup(0, 2, 4, 8)).state_dict()
    with pytest.raises(CheckpointError, match="observations"):
        replays.learner().load_state_dict(state)
