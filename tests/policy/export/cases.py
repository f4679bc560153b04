"""Policies of every kind, with random parameters, for what exports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fast_core.algorithm import ORIGIN, Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.config import AlgorithmConfig
from fast_core.config.algorithms import algorithm_config_type
from tests.algos.pixel_cases import SEEN
from tests.algos.replay_cases import ALL

INF = np.inf


def box(*shape: int, low: Any = -INF, high: Any = INF, dtype: str = "float32") -> SpaceSpec:
    bounds = (np.ravel(each).astype(float).tolist() for each in (low, high))
    low, high = bounds
    return SpaceSpec("box", shape, dtype, low=tuple(low), high=tuple(high))


def discrete(n: int, start: int = 0, dtype: str = "int64") -> SpaceSpec:
    return SpaceSpec("discrete", (), dtype, n=n, start=start)


def multi(counts: Any, shape: Any = None, starts: Any = (), dtype: str = "int64") -> SpaceSpec:
    return SpaceSpec(
        "multi_discrete",
        shape or (len(counts),),
        dtype,
        counts=tuple(counts),
        starts=tuple(starts) or (0,) * len(counts),
    )


ODD_BOX = box(2, low=(-1.0, 0.5), high=(3.0, 0.75))
MIXED = SpaceSpec.composite(
    [
        ("arm/joints", box(2, 2, dtype="float64")),
        ("state", discrete(4, start=-1)),
        ("gear", multi((2, 3), starts=(5, 0))),
        ("on", box(3, low=0, high=1, dtype="int8")),
    ]
)
TUPLE = SpaceSpec.composite([("0", box(3, low=-5, high=5)), ("1", discrete(3, dtype="int32"))])
# Whole numbers that a float would round to others, and choices beyond C's int.
FAR = SpaceSpec.composite(
    [("0", discrete(4, start=2**25)), ("1", multi((3, 2), starts=(2**40, 1 - 2**53)))]
)
WIDE = SpaceSpec.composite(
    [
        *[("where", box(2, dtype="float64")), ("gear", discrete(3)), ("plain", box(1))],
        *[("count", box(2, dtype="int32")), ("more", box(1, dtype="uint32"))],
        *[("clock", box(1, dtype="int64")), ("last", box(1, dtype="uint64"))],
    ]
)
FAR_ACTION = multi((3, 2), starts=(2**31 - 2, -(2**40)))


@dataclass(frozen=True)
class Case:
    """A policy.

    Attributes:
        config: Its algorithm.
        environment: What it acts in.
        flat: Whether it is written in C too.
    """

    config: AlgorithmConfig
    environment: EnvironmentSpec
    flat: bool = True

    def parameters(self, seed: int = 0) -> tuple[Array, ...]:
        """Random ones; large enough for choices and saturation, with plausible statistics."""
        rng = np.random.default_rng(seed)
        made = []
        for field in self.config.policy_fields(self.environment):
            values = 0.1 * rng.normal(size=field.shape)
            if field.name.endswith("weight"):
                # Without what all inputs share: behind relu, that alone would choose.
                axes = (1, 2, 3) if len(field.shape) == 4 else (-1,)
                values -= values.mean(axis=axes, keepdims=True)
                gain = 14.0 if len(axes) == 3 else 20.0  # many convolutions follow one another
                values *= gain / np.sqrt(np.prod([field.shape[axis] for axis in axes]))
            if field.name == ORIGIN:  # whole numbers, as integers have to be counted from
                values = np.rint(np.abs(values) * np.array([[1e9], [10.0]]))
            if field.name.endswith("inverse_std"):
                values = np.exp(6 * values)  # some so large that numbers are clipped
            made.append(values.astype(np.float32))
        return tuple(made)

    def origins(self) -> dict[str | None, Array]:
        """What numbers are counted from, by their part."""
        fields = self.config.policy_fields(self.environment)
        names = [field.name for field in fields]
        if ORIGIN not in names:
            return {}
        origin, at, found = self.parameters()[names.index(ORIGIN)].sum(axis=0), 0, {}
        space = self.environment.observation
        for name, leaf in space.parts or ((None, space),):
            if name is not None and name == self.environment.action_mask:
                continue
            size = leaf.size if leaf.kind == "box" else sum(choices(leaf))
            if leaf.kind == "box" and leaf.row_dtype.itemsize > 2 and leaf.dtype != "float32":
                found[name] = origin[at : at + size]
            at += size
        return found


def ppo(
    observation: SpaceSpec,
    action: SpaceSpec,
    *,
    flat: bool = True,
    frames: int = 1,
    mask: str | None = None,
    **changes: Any,
) -> Case:
    environment = EnvironmentSpec("Test-v0", observation, action, frames=frames, action_mask=mask)
    return Case(PPOConfig(**({"hidden_sizes": (16, 12)} | changes)), environment, flat)


def replay(
    name: str,
    observation: SpaceSpec,
    action: SpaceSpec,
    *,
    flat: bool = True,
    frames: int = 1,
    mask: str | None = None,
    **changes: Any,
) -> Case:
    environment = EnvironmentSpec("Test-v0", observation, action, frames=frames, action_mask=mask)
    return Case(ALL[name](**({"hidden_sizes": (16, 12)} | changes)), environment, flat)


def masked(observation: SpaceSpec, choices: int) -> SpaceSpec:
    parts = observation.parts or (("obs", observation),)
    return SpaceSpec.composite([*parts, ("action_mask", box(choices, low=0, high=1, dtype="bool"))])


FIVE = box(5)
OWN = "tests.algos.own_networks"
QRDQN = "examples.qrdqn:QRDQNConfig"
CASES: dict[str, Callable[[], Case]] = {
    "ppo": lambda: ppo(FIVE, discrete(3)),
    "ppo_start": lambda: ppo(FIVE, discrete(3, start=-4, dtype="int32"), shared_torso=True),
    "ppo_raw": lambda: ppo(FIVE, discrete(3), normalize_observations=False, activation="relu"),
    "ppo_box": lambda: ppo(box(5, dtype="float64"), ODD_BOX),
    "ppo_box_stretched": lambda: ppo(FIVE, ODD_BOX, normalize_actions=True),
    "ppo_box_free": lambda: ppo(FIVE, box(2, 2, dtype="float64")),
    "ppo_box_half": lambda: ppo(FIVE, box(2, low=(-INF, -0.1), high=(0.1, INF), dtype="float64")),
    "ppo_multi": lambda: ppo(FIVE, multi((2, 3, 2), starts=(0, 1, -2))),
    "ppo_one_choice": lambda: ppo(masked(FIVE, 4), multi((1, 3)), mask="action_mask"),
    "ppo_binary": lambda: ppo(FIVE, multi((2,) * 4, shape=(2, 2), starts=(0,) * 4, dtype="int8")),
    "ppo_masked": lambda: ppo(masked(FIVE, 4), discrete(4, start=1), mask="action_mask"),
    "ppo_multi_masked": lambda: ppo(masked(MIXED, 5), multi((2, 3)), mask="action_mask"),
    "ppo_mixed": lambda: ppo(MIXED, discrete(3)),
    "ppo_tuple": lambda: ppo(TUPLE, ODD_BOX),
    "ppo_discrete": lambda: ppo(discrete(7, start=2), discrete(3), normalize_observations=False),
    "ppo_wide": lambda: ppo(WIDE, discrete(3)),
    "sac_wide": lambda: replay("sac", WIDE, ODD_BOX, normalize_observations=True),
    "ppo_far": lambda: ppo(FAR, FAR_ACTION, normalize_observations=False),
    "ppo_frames": lambda: ppo(box(3, 4), discrete(3), frames=3),
    "ppo_pixels_flat": lambda: ppo(SEEN["small"][0], discrete(3), frames=2, network="mlp"),
    "ppo_gru": lambda: ppo(FIVE, discrete(3), recurrent="gru", recurrent_size=6),
    "ppo_lstm": lambda: ppo(FIVE, ODD_BOX, recurrent="lstm", recurrent_size=6),
    "ppo_lstm_masked": lambda: ppo(
        masked(MIXED, 4), discrete(4), mask="action_mask", recurrent="lstm", recurrent_size=6
    ),
    "ppo_cnn": lambda: ppo(
        SEEN["stacked"][0], discrete(3), frames=3, flat=False, hidden_sizes=None
    ),
    "ppo_cnn_mixed": lambda: ppo(SEEN["composite"][0], ODD_BOX, flat=False, hidden_sizes=None),
    "ppo_cnn_gru": lambda: ppo(
        SEEN["small"][0], discrete(3), frames=2, flat=False, recurrent="gru", recurrent_size=6
    ),
    "sac": lambda: replay("sac", FIVE, ODD_BOX),
    "sac_normalized": lambda: replay("sac", FIVE, ODD_BOX, normalize_observations=True),
    "sac_doubles": lambda: replay(
        "sac", box(5, dtype="float64"), box(1, 2, low=-0.1, high=0.3, dtype="float64")
    ),
    "dsac": lambda: replay("dsac", FIVE, ODD_BOX),
    "dsact": lambda: replay("dsact", MIXED, ODD_BOX, activation="tanh"),
    "td3": lambda: replay("td3", FIVE, ODD_BOX),
    "ddpg": lambda: replay("ddpg", TUPLE, box(1, low=-1e-4, high=1e-4)),
    "dqn": lambda: replay("dqn", FIVE, discrete(3, start=2)),
    "dqn_plain": lambda: replay("dqn", FIVE, discrete(3), dueling=False),
    "dqn_masked": lambda: replay("dqn", masked(FIVE, 4), discrete(4), mask="action_mask"),
    "sac_cnn": lambda: replay("sac", SEEN["composite"][0], ODD_BOX, flat=False),
    "dqn_cnn": lambda: replay("dqn", SEEN["stacked"][0], discrete(3), frames=3, flat=False),
    "ppo_options": lambda: ppo(FIVE, ODD_BOX, activation="gelu", layer_norm=True),
    "ppo_lstm_options": lambda: ppo(
        FIVE, discrete(3), activation="silu", layer_norm=True, recurrent="lstm", recurrent_size=6
    ),
    "sac_options": lambda: replay(
        "sac",
        MIXED,
        ODD_BOX,
        activation="elu",
        layer_norm=True,
        actor_sizes=(8, 9, 10),
        normalize_observations=True,
    ),
    "dqn_options": lambda: replay(
        "dqn",
        SEEN["composite"][0],
        discrete(3),
        flat=False,
        activation="leaky_relu",
        normalize_observations=True,
    ),
    "ppo_own": lambda: ppo(FIVE, discrete(3), network=f"{OWN}:Plain"),
    "ppo_own_parts": lambda: ppo(
        masked(MIXED, 5),
        multi((2, 3)),
        mask="action_mask",
        network=f"{OWN}:Parts",
        hidden_sizes=None,
        shared_torso=False,
        recurrent="none",
    ),
    "ppo_own_gru": lambda: ppo(
        FIVE, ODD_BOX, network=f"{OWN}:Plain", recurrent="gru", recurrent_size=6
    ),
    "ppo_own_frames": lambda: ppo(
        SEEN["stacked"][0], discrete(3), frames=3, flat=False, network=f"{OWN}:Frames"
    ),
    "sac_lstm": lambda: replay(
        "sac", MIXED, ODD_BOX, normalize_observations=True, recurrent="lstm", recurrent_size=6
    ),
    "dqn_gru_masked": lambda: replay(
        "dqn", masked(FIVE, 4), discrete(4), mask="action_mask", recurrent="gru", recurrent_size=6
    ),
    "dqn_cnn_gru": lambda: replay(
        "dqn",
        SEEN["small"][0],
        discrete(3),
        frames=2,
        flat=False,
        recurrent="gru",
        recurrent_size=6,
    ),
    "sac_own": lambda: replay("sac", FIVE, ODD_BOX, network=f"{OWN}:Plain"),
    "ddpg_own_each": lambda: replay(
        "ddpg", FIVE, ODD_BOX, network=f"{OWN}:Both", hidden_sizes=None
    ),
    "td3_own_parts": lambda: replay(
        "td3", MIXED, ODD_BOX, network=f"{OWN}:Parts", normalize_observations=True
    ),
    "dqn_own": lambda: replay(
        "dqn", masked(FIVE, 4), discrete(4), mask="action_mask", network=f"{OWN}:Parts"
    ),
    "qrdqn": lambda: Case(
        algorithm_config_type(QRDQN)(name=QRDQN),
        EnvironmentSpec("Test-v0", FIVE, discrete(3, start=2)),
    ),
    "dqn_cnn_small": lambda: replay(
        "dqn", SEEN["small"][0], discrete(3), frames=2, flat=False, dueling=False
    ),
}


def observations(case: Case, rows: int, seed: int = 0) -> np.ndarray:
    """Small and large numbers, bounds, all choices; masks down to one that is allowed.

    Numbers are about what they are counted from.
    """
    rng = np.random.default_rng(seed)
    space, origins = case.environment.observation, case.origins()
    obs = np.zeros((rows, *space.shape), space.row_dtype)
    for name, leaf in space.parts or ((None, space),):
        target = obs if name is None else obs[name]
        flat = target.reshape(rows, -1)
        if name is not None and name == case.environment.action_mask:
            flat[...] = rng.random(flat.shape) < 0.4
            first = np.cumsum((0, *choices(case.environment.action)[:-1]))
            for begin, count in zip(first, choices(case.environment.action), strict=True):
                flat[np.arange(rows), begin + rng.integers(0, count, rows)] = True
        elif leaf.kind == "box":
            magnitude = 10.0 ** rng.integers(-2, 2, (rows, 1))
            numbers = rng.normal(size=flat.shape) * magnitude
            low, high = (bound.ravel() for bound in leaf.bounds)
            if np.isfinite(low).all():
                # In runs of equal numbers: of fine noise all images look the same.
                runs = rng.random((rows, flat.shape[1] // 5 + 1)) * rng.random((rows, 1))
                numbers = low + np.repeat(runs, 5, axis=1)[:, : flat.shape[1]] * (high - low)
                numbers[0], numbers[1] = low, high
            numbers = np.rint(numbers) if flat.dtype.kind in "iub" else numbers
            flat[...] = numbers + origins.get(name, 0)
        else:
            starts = leaf.starts or (leaf.start,)
            for column, (start, count) in enumerate(zip(starts, choices(leaf), strict=True)):
                flat[:, column] = start + rng.integers(0, count, rows)
        target[...] = flat.reshape(target.shape)
    return obs


def choices(space: SpaceSpec) -> tuple[int, ...]:
    return (space.n,) if space.kind == "discrete" else space.counts


def parts(case: Case, obs: np.ndarray) -> list[np.ndarray]:
    """Observations as exported policies take them."""
    names = [name for name, _ in case.environment.observation.parts]
    return [np.ascontiguousarray(obs[name]) for name in names] if names else [obs]


def states(case: Case, rows: int, seed: int = 0) -> list[np.ndarray]:
    """States in the middle of an episode, and the first one; none without memory."""
    size = case.config.state_size(case.environment)
    state = np.random.default_rng(seed).uniform(-2, 2, (rows, size)).astype(np.float32)
    state[0] = 0.0
    return [state] if size else []


def answers(case: Case, obs: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
    """What the policy itself does, in the environment's dtype, and what it remembers."""
    config, environment = case.config, case.environment
    backend = config.policy_backend(environment)
    policy = config.make_policy(environment, PolicySetup(backend=backend))
    policy.load(case.parameters())
    noise = np.zeros((len(obs), *config.noise(environment).shape), np.float32)
    said = policy.act(obs, noise=noise, explore=False, state=state[0] if state else None)
    action = policy.environment_action(said.action).astype(environment.action.dtype, copy=True)
    return [action] if said.state is None else [action, np.array(said.state)]
