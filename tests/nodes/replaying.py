"""What a replay must hold after some rollouts, worked out in a slow loop over their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, PolicySetup, ReplaySpec
from fast_core.algorithm import Window as SequenceWindow
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.memory import ReplayLog, ReplayReader
from tests.nodes.counting import CountingConfig, CountingPolicy

GAMMA = 0.9
Window = tuple[bytes, bytes, int, float, float]
Windows = dict[tuple[int, int], Window]


class StartingPolicy(CountingPolicy):
    """Its first action is the first of the environment's."""

    def __init__(self, start: int, glances: bool = False) -> None:
        super().__init__(glances)
        self.start = start

    def environment_action(self, action: Array) -> Array:
        """Counted as the environment counts."""
        return action + self.start


class ReplayingConfig(CountingConfig, frozen=True, kw_only=True):
    """Acts as the other, and learns nothing from replay.

    Attributes:
        sequences: Steps and rows before them of sequences with what was remembered, if it is to
            draw those.
    """

    name: str = "tests.nodes.replaying:ReplayingConfig"
    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"
    n_step: int = 3
    sequences: tuple[int, int] | None = None

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> CountingPolicy:
        """A new one."""
        return StartingPolicy(environment.action.start, self.declares)

    def replay(self) -> ReplaySpec:
        """Four windows, or sequences."""
        if self.sequences is not None:
            return ReplaySpec(4, sequence=SequenceWindow(*self.sequences), stored_state=True)
        return ReplaySpec(4, self.n_step, GAMMA)


@dataclass
class Episode:
    """A part of an episode without a gap.

    Attributes:
        steps: Observation, action and reward of each step.
        after: The observation after the last one, None where nobody may know it.
        terminated: Whether that is the end of the task.
        ended: Whether that is the end of the episode.
    """

    steps: list[tuple[Array, int, float]] = field(default_factory=list)
    after: Array | None = None
    terminated: bool = False
    ended: bool = False


def episodes_of(
    rollouts: Sequence[Mapping[str, NDArray[Any]]], env: int, frames: int = 1
) -> list[Episode]:
    """What one environment did in rollouts that follow one another; the last one may be open."""
    episodes = [Episode()]
    for rollout in rollouts:
        for t in range(len(rollout["reward"])):
            episode, obs = episodes[-1], rollout["obs"][frames - 1 + t, env]
            if rollout["quarantined"][t, env]:  # known up to here, if that was not written before
                if episode.steps and t:
                    episode.after, episode.ended = obs, True
                episodes.append(Episode())
                continue
            action, reward = int(rollout["action"][t, env]), float(rollout["reward"][t, env])
            episode.steps.append((obs, action, reward))
            episode.terminated = bool(rollout["terminated"][t, env])
            if episode.terminated or rollout["truncated"][t, env]:
                episode.after, episode.ended = rollout["final_obs"][t, env], True
                episodes.append(Episode())
    return episodes


def windows_of(envs: Sequence[Sequence[Episode]], steps: int, frames: int = 1) -> Windows:
    """Every window that may be drawn, by log and row."""
    found: Windows = {}
    for env, episodes in enumerate(envs):
        row = 0
        for episode in episodes:
            for start, window in _windows(episode, steps, frames):
                found[env, row + start] = window
            row += len(episode.steps) + episode.ended
    return found


def _windows(episode: Episode, n: int, frames: int) -> Iterator[tuple[int, Window]]:
    observed = [obs for obs, _, _ in episode.steps]
    if episode.ended:
        assert episode.after is not None
        observed.append(episode.after)
    for start in range(len(episode.steps)):
        last = min(start + n, len(episode.steps)) if episode.ended else start + n
        if last >= len(observed):
            return
        value = sum(GAMMA**k * episode.steps[start + k][2] for k in range(last - start))
        final = episode.terminated and last == len(episode.steps)
        discount = 0.0 if final else GAMMA ** (last - start)
        stacks = [_stack(observed, at, frames) for at in (start, last)]
        yield start, (*stacks, episode.steps[start][1], value, discount)


def _stack(observed: Sequence[Array], at: int, frames: int) -> bytes:
    return b"".join(_bytes(observed[max(0, at - back)]) for back in reversed(range(frames)))


def _bytes(obs: Array) -> bytes:
    """Without what lies between the parts of a composite one."""
    names = obs.dtype.names
    return obs.tobytes() if names is None else b"".join(obs[name].tobytes() for name in names)


def drawn_windows(logs: Sequence[ReplayLog], steps: int, frames: int = 1) -> Windows:
    """Every window of the logs that can be drawn, each as it was drawn."""
    reader = ReplayReader(
        logs, steps=steps, gamma=GAMMA, frames=frames, seed=np.random.SeedSequence(5)
    )
    found: Windows = {}
    to, count = reader.arrays(512), reader.valid()
    for _ in range(200):
        if len(found) == count:
            return found
        assert reader.draw(to)
        for k in range(len(to.row)):
            key = int(to.log[k]), int(to.row[k])
            value = round(float(to.reward[k]), 4), round(float(to.discount[k]), 5)
            window = _bytes(to.obs[k]), _bytes(to.next_obs[k]), int(to.action[k]), *value
            assert found.setdefault(key, window) == window
    raise AssertionError(f"drew {len(found)} of {count} windows")


def rounded(windows: Windows) -> Windows:
    """As `drawn_windows` rounds float32 values."""
    return {
        key: (obs, after, action, round(float(np.float32(value)), 4), round(discount, 5))
        for key, (obs, after, action, value, discount) in windows.items()
    }
