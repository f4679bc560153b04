"""A loaded policy does what the evaluator node did, and says what it can't take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm.spec import Branch, Tree
from fast_core.errors import CheckpointError, ConfigError, PolicyError
from fast_core.policy import Policy, PolicyState, load_policy
from tests.forms import slow_but
from tests.policy.stages import ENVS, KINDS, Played, play

QUICK = ("ppo", "recurrent frames", "dict", "info mask", "sac")


def batch(policy: Policy, rows: np.ndarray) -> Any:
    """Rows as the nodes have them in the form in which environments together give them."""
    if policy.environment.frames > 1:
        rows = rows[:, -1]
    return _nested(rows, policy.environment.tree)


def _nested(rows: Any, tree: Tree) -> Any:
    if not isinstance(tree, Branch):
        return rows[tree] if tree else rows
    parts = [_nested(rows, part) for part in tree.parts]
    return dict(zip(tree.keys, parts, strict=True)) if tree.named else tuple(parts)


def one(obs: Any, place: int) -> Any:
    if isinstance(obs, dict):
        return {key: one(part, place) for key, part in obs.items()}
    return tuple(one(part, place) for part in obs) if isinstance(obs, tuple) else obs[place]


@pytest.mark.parametrize("kind", slow_but(QUICK, KINDS))
def test_actions_are_those_of_the_evaluator_node(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(tmp_path, kind, monkeypatch)
    policy = load_policy(played.file, modules=["tests"])
    assert (policy.version, policy.env_steps) == (7, 70)
    assert policy.origin.mean_return == pytest.approx(np.mean(played.returns))
    state: PolicyState | None = None
    alone: list[PolicyState | None] = [None] * ENVS
    exact = same = 0
    for obs, began, expected in played.asked:
        given = batch(policy, obs)
        state = None if state is None else state.restart(began)
        actions, state = policy(given, state)
        np.testing.assert_array_equal(actions, expected)
        assert actions.dtype == expected.dtype
        for place in range(ENVS):
            before = None if began[place] else alone[place]
            action, alone[place] = policy(one(given, place), before)
            assert policy.action_space.contains(action), action
            # A batch of one may round otherwise than one of three.
            exact += 1
            same += np.allclose(action, expected[place], atol=1e-5, rtol=1e-5)
    assert same >= 0.99 * exact > 0


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return _played(tmp_path_factory, "ppo")


def _played(factory: pytest.TempPathFactory, kind: str) -> Played:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return play(factory.mktemp("run"), kind, monkeypatch)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return load_policy(_played(tmp_path_factory, "mask").file)


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return load_policy(_played(tmp_path_factory, "recurrent frames").file)


def test_a_policy_describes_itself(cartpole: Played) -> None:
    policy = load_policy(cartpole.run)
    assert (policy.algorithm, policy.environment.id) == ("ppo", "CartPole-v1")
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    assert policy.observation_space == env.observation_space
    assert policy.action_space == env.action_space
    assert repr(policy) == "<Policy ppo for CartPole-v1, version 7 after 70 env steps>"
    assert policy.run == cartpole.run


def test_nested_spaces_are_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.envs.space_toys import Robot

    policy = load_policy(play(tmp_path, "dict", monkeypatch).file)
    robot, rebuilt = Robot(), policy.observation_space
    assert list(rebuilt) == list(robot.observation_space)  # type: ignore[call-overload]
    for part in ("camera", "arm", "goal"):
        assert rebuilt[part] == robot.observation_space[part]  # type: ignore[index]
    assert rebuilt["touch"].contains(np.ones(2, np.int8)), "zeros and ones"  # type: ignore[index]
    assert policy.action_space == robot.action_space


def test_noise_is_the_policys_own_and_repeats(cartpole: Played) -> None:
    obs = np.zeros((50, 4), np.float32)
    first, again, other = (load_policy(cartpole.file, seed=seed) for seed in (3, 3, 4))
    drawn = [each(obs, deterministic=False)[0].tolist() for each in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 2, "both actions are possible"
    assert first(obs, deterministic=False)[0].tolist() != drawn[0]
    with pytest.raises(PolicyError, match="seed must be at least 0; got -1"):
        first.seed(-1)
    first.seed(3)
    assert first(obs, deterministic=False)[0].tolist() == drawn[0]


def test_actions_are_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy(play(tmp_path, "sac", monkeypatch).file)
    for shape in ((3,), (2, 3)):
        action, _ = policy(np.ones(shape, np.float32))
        kept = action.copy()
        action[...] = 99
        again, _ = policy(np.ones(shape, np.float32))
        policy(np.zeros(shape, np.float32))
        np.testing.assert_array_equal(again, kept)


def test_wider_floats_and_lists_are_taken(cartpole: Played) -> None:
    policy = load_policy(cartpole.file)
    numbers = [0.01, -0.5, 0.02, 0.25]
    expected = policy(np.array(numbers, np.float32))
    assert policy(np.array(numbers)) == expected
    assert policy(numbers) == expected
    assert policy([0, 1, 0, 0])[0] in (0, 1)
    actions, _ = policy([numbers, numbers])
    assert actions.tolist() == [expected[0]] * 2


@pytest.mark.parametrize(
    ("obs", "said"),
    [
        (np.zeros(3, np.float32), r"shape \(3,\) of float32, .*shape \(4,\) of float32.*'CartPole"),
        (np.zeros((2, 3), np.float32), r"shape \(2, 3\).*shape \(4,\) of float32"),
        (np.zeros((2, 2, 4), np.float32), r"shape \(2, 2, 4\)"),
        (np.zeros(4, np.int64), r"int64.*float32"),
        (np.zeros((2, 4), np.uint8), r"uint8.*float32"),
        ({"x": 1}, "dict"),
        ("left", "<U4"),
        (None, "NoneType"),
        ([[0.0] * 4, [0.0] * 3], "list"),
    ],
)
def test_other_observations_are_refused(cartpole: Played, obs: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=f"(?s){said}.*or a batch of them"):
        load_policy(cartpole.file)(obs)


def test_masks_are_obeyed_and_impossible_ones_refused(doors: Policy) -> None:
    step = np.zeros(2, np.float32)
    for door in range(4):
        mask = np.eye(4, dtype=np.int8)[door]
        for deterministic in (True, False):
            assert doors({"step": step, "open": mask}, deterministic=deterministic)[0] == door + 1
    masks = np.eye(4, dtype=bool)[[2, 0, 3]]
    actions, state = doors({"step": np.zeros((3, 2), np.float32), "open": masks})
    assert (actions.tolist(), state) == ([3, 1, 4], None)
    with pytest.raises(PolicyError, match=r"mask .*allows no action.*part 'open'"):
        doors({"step": step, "open": np.zeros(4, np.int8)})
    with pytest.raises(PolicyError, match=r"row 1: .*allows no action"):
        doors({"step": np.zeros((2, 2), np.float32), "open": np.array([[1] * 4, [0] * 4])})
    for wrong in (np.ones(3, np.int8), np.ones(4, np.float32)):
        with pytest.raises(PolicyError, match="part 'open' of the observation"):
            doors({"step": step, "open": wrong})
    with pytest.raises(PolicyError, match=r"lacks the keys \['open'\]"):
        doors({"step": step})
    with pytest.raises(PolicyError, match=r"undeclared keys \['more'\]"):
        doors({"step": step, "open": masks[0], "more": 1})
    with pytest.raises(PolicyError, match="lack the part 'open'"):
        doors({"step": np.zeros((3, 2), np.float32)})


def test_choices_out_of_range_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative index would count from the end, and nobody would know."""
    policy = load_policy(play(tmp_path, "dict", monkeypatch).file)
    from tests.envs.space_toys import Robot

    obs, _ = Robot().reset(seed=0)
    policy(obs)
    with pytest.raises(PolicyError, match=r"part 'goal/0' .*from -1 to 97; got -2"):
        policy({**obs, "goal": (-2, obs["goal"][1])})
    with pytest.raises(PolicyError, match=r"part 'goal/1' .*\[98, 98\]; got \[0, 99\]"):
        policy({**obs, "goal": (0, np.array([0, 99]))})


def test_state_goes_on_from_wherever_it_is_given(remembering: Policy) -> None:
    frames = np.random.default_rng(0).normal(0, 1, (6, 4)).astype(np.float32)
    states: list[PolicyState | None] = [None]
    for frame in frames:
        states.append(remembering(frame, states[-1])[1])
    last = states[-1]
    assert last is not None and last.memory is not None and last.frames is not None
    assert last.memory.shape == (1, 4)
    np.testing.assert_array_equal(last.frames[0], frames[-2:])
    again = states[3]
    for frame in frames[3:]:
        _, again = remembering(frame, again)
    assert again is not None
    np.testing.assert_array_equal(again.memory, last.memory)
    first = states[1]
    assert first is not None and first.frames is not None
    np.testing.assert_array_equal(first.frames[0], frames[[0, 0]])


def test_states_that_do_not_fit_are_refused(remembering: Policy, cartpole: Played) -> None:
    frames = np.zeros((3, 4), np.float32)
    _, state = remembering(frames)
    with pytest.raises(PolicyError, match=r"memory of shape \(1, 4\).*with memory of shape \(3, 4"):
        remembering(frames[0], state)
    with pytest.raises(PolicyError, match="None where episodes begin; got a ndarray"):
        remembering(frames, np.zeros((3, 4)))  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"state is None; got a PolicyState"):
        load_policy(cartpole.file)(frames, state)


def test_saved_policy_is_the_same_one(cartpole: Played, tmp_path: Path) -> None:
    policy = load_policy(cartpole.run)
    policy.save(tmp_path / "p.policy")
    again = load_policy(tmp_path / "p.policy")
    assert again.file == policy.file
    assert again.run is None
    with pytest.raises(PolicyError, match=r"can't write the policy to .*nowhere"):
        policy.save(tmp_path / "nowhere" / "p")
    with pytest.raises(PolicyError, match="it is a folder"):
        policy.save(tmp_path)


def test_a_device_that_is_not_there_is_refused(cartpole: Played) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("it is there")
    with pytest.raises(PolicyError, match=r"device 'cuda' can't be used: .*Use device='cpu'"):
        load_policy(cartpole.file, device="cuda")
    with pytest.raises(PolicyError, match="device 'cup' can't be used"):
        load_policy(cartpole.file, device="cup")


@pytest.mark.parametrize("kind", ["ppo", "pixels", "recurrent"])
def test_on_a_gpu_it_does_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is none")
    played = play(tmp_path, kind, monkeypatch)
    here, there = (
        load_policy(played.file, modules=["tests"]),
        load_policy(played.file, device="cuda"),
    )
    given = batch(here, played.asked[0][0])
    np.testing.assert_allclose(there(given)[0], here(given)[0], atol=1e-3)


def test_another_networks_parameters_are_refused(cartpole: Played) -> None:
    import msgspec

    file = load_policy(cartpole.file).file
    other = msgspec.structs.replace(file, algorithm={**file.algorithm, "hidden_sizes": [9]})
    with pytest.raises(CheckpointError, match=r"'policy.0.weight' of shape \(8, 4\), wanted \(9"):
        Policy(other, where="here")
    other = msgspec.structs.replace(file, algorithm={**file.algorithm, "gama": 0.5})
    with pytest.raises(CheckpointError, match=r"here has a configuration .*'ppo' .*`gama`"):
        Policy(other, where="here")


def test_policies_that_search_may_search_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = play(tmp_path, "muzero", monkeypatch).file
    policies = [load_policy(file, simulations=n) for n in (None, 1, 40)]
    assert [policy.file.algorithm["simulations"] for policy in policies] == [6, 1, 40]
    board = {"board": np.zeros((3, 3, 2), np.int8), "moves": np.ones(9, np.int8), "to_play": 0}
    board["board"][0, :2, 0] = 1
    board["moves"][:2] = 0  # type: ignore[index]
    for policy in policies:
        action, state = policy(board)
        assert action in range(2, 9) and state is None
    for wrong in (0, 70_000, 2.5, True):
        with pytest.raises(ConfigError, match=f"integer of at least 1 .*65535; got {wrong}"):
            load_policy(file, simulations=wrong)  # type: ignore[arg-type]


def test_simulations_are_refused_where_nothing_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = play(tmp_path, "dqn", monkeypatch).file
    with pytest.raises(ConfigError, match=r"policies that search.*is of 'dqn'\. Leave it out"):
        load_policy(file, simulations=8)
