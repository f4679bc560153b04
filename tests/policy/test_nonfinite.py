"""NaN, infinity and numbers that float32 can't compute with: no action, and never a state."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.errors import PolicyError
from fast_core.policy import Policy, PolicyState, load_policy
from tests.forms import slow_but
from tests.policy.stages import KINDS, play
from tests.policy.test_policy import batch, one

NAN, INFINITY = float("nan"), float("inf")
FLOATS = [kind for kind in KINDS if kind not in ("pixels", "first choice", "muzero")]


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def load(kind: str, **how: Any) -> tuple[Policy, Any]:
        played = play(tmp_path, kind, monkeypatch)
        policy = load_policy(played.file, modules=["tests"], **how)
        return policy, batch(policy, played.asked[0][0])

    yield load


def spoilt(obs: Any, number: float) -> Any:
    """A copy with ``number`` as the last entry of every part that has floats."""
    if isinstance(obs, dict):
        return {key: spoilt(part, number) for key, part in obs.items()}
    obs = copy.deepcopy(obs)
    if isinstance(obs, np.ndarray) and obs.dtype.kind == "f":
        obs.reshape(-1)[-1] = number
    return obs


@pytest.mark.parametrize("kind", slow_but(("ppo", "recurrent frames", "dict", "dqn"), FLOATS))
def test_such_observations_are_refused_in_every_form(policies: Any, kind: str) -> None:
    policy, rows = policies(kind)
    for number, said in ((NAN, "nan"), (INFINITY, "inf"), (-INFINITY, "-inf"), (2e30, r"2e\+30")):
        with pytest.raises(PolicyError, match=rf"^(part '.*' of )?the observation is {said}"):
            policy(spoilt(one(rows, 0), number))
        with pytest.raises(PolicyError, match=rf"^row 2: .* is {said}"):
            policy(spoilt(rows, number), deterministic=False)
    policy(spoilt(rows, -9e29))
    policy(rows)


def test_the_entry_and_the_part_are_named(policies: Any) -> None:
    policy, rows = policies("ppo")
    rows[1, 2], rows[2, 0] = INFINITY, NAN
    with pytest.raises(
        PolicyError, match=r"^row 1: .* is inf at \[2\], and 1 more .*nonfinite='act'"
    ):
        policy(rows)
    with pytest.raises(PolicyError, match=r"^the observation is inf at \[2\]; "):
        policy(rows[1])
    with pytest.raises(PolicyError, match=r"^the observation is nan at \[3\]; "):
        policy([0, 0, 0, NAN])
    with pytest.raises(PolicyError, match="nonfinite must be 'fail' or 'act'; got 'warn'"):
        Policy(policy.file, nonfinite="warn")  # type: ignore[arg-type]


def test_numbers_of_sixteen_bits_are_looked_at_as_well(policies: Any) -> None:
    policy, rows = policies("ppo")
    environment = policy.environment
    space = msgspec.structs.replace(environment.observation, dtype="float16")
    environment = msgspec.structs.replace(environment, observation=space)
    policy = Policy(msgspec.structs.replace(policy.file, environment=environment))
    rows = rows.astype(np.float16)
    rows[0] = 60_000
    for obs in (rows, rows[0]):
        policy(obs)
        with pytest.raises(PolicyError, match="the observation is inf"):
            policy(spoilt(obs, INFINITY))


def test_asked_for_it_acts_and_remembers_what_it_knew(policies: Any) -> None:
    policy, rows = policies("recurrent frames", nonfinite="act")
    for number in (NAN, INFINITY):
        _, state = policy(rows * 0.5)
        actions, after = policy(spoilt(rows, number), state)
        assert actions.shape == (len(rows),)
        assert policy.action_space.contains(actions[2])
        for kept, known in ((after.memory, state.memory), (after.frames, state.frames)):
            np.testing.assert_array_equal(kept[2], known[2])
            assert not np.array_equal(kept[:2], known[:2]), "the others went on"
        assert after.fresh is None


def test_an_episode_that_begins_with_nan_still_begins_with_the_next_one(policies: Any) -> None:
    policy, rows = policies("recurrent frames", nonfinite="act")
    for before in (None, policy(rows)[1].restart([1, 2])):
        state = policy(spoilt(rows, NAN), before)[1]
        assert np.isfinite(state.memory).all() and np.isfinite(state.frames).all()
        assert state.fresh.tolist() == [False, False, True]
        _, then = policy(rows, state)
        _, new = policy(rows)
        np.testing.assert_array_equal(then.memory[2], new.memory[2])
        np.testing.assert_array_equal(then.frames[2], new.frames[2])


def test_a_state_of_nan_is_refused(policies: Any) -> None:
    policy, rows = policies("recurrent")
    spoilt_state = PolicyState(np.full_like(policy(rows)[1].memory, NAN))
    with pytest.raises(PolicyError, match="the state has NaN or infinity"):
        policy(rows, spoilt_state)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))]
)
def test_copies_refuse_and_answer_as_what_they_were_made_of(
    policies: Any, copied: Callable[[Policy], Policy]
) -> None:
    policy, rows = policies("ppo")
    right = policy(rows[0])
    for spoils in (False, True):
        if spoils:
            with pytest.raises(PolicyError):
                policy(spoilt(rows[0], NAN))
        other = copied(policy)
        assert other(rows[0]) == right
        with pytest.raises(PolicyError, match="the observation is nan"):
            other(spoilt(rows[0], NAN))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo box", "recurrent"])
def test_exported_policies_compute_on_as_their_documentation_says(
    policies: Any, kind: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    policy, rows = policies(kind)
    act = torch.export.load(policy.export(tmp_path / "exported.pt2")).module()
    given = [spoilt(one(rows, 0), NAN)[None]]
    if kind == "recurrent":
        action, state = act(*map(torch.from_numpy, [*given, np.zeros((1, 12), np.float32)]))
        assert action.tolist() == [0]
        assert state.isnan().all()
    else:
        assert act(torch.from_numpy(given[0])).isnan().all()
