"""An environment that does not keep the contract is refused, by a sentence for each fault."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from fast_core.config import EnvironmentConfig
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.errors import ConfigError, ContractBroken, EnvironmentFailed
from fast_core.testing import check_environment


class Sound(gymnasium.Env[Any, Any]):
    """Walks at random; an episode ends after 7 steps."""

    observation_space = spaces.Box(-99, 99, (2,), np.float32)
    action_space: Any = spaces.Discrete(3, start=1)
    age = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        self.at = self.np_random.normal()
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.age += 1
        self.at += self.np_random.normal() + float(action)
        return self.seen(), float(self.at), self.t == 7, False, {}

    def seen(self) -> Any:
        return np.array([self.t, self.at], np.float32)


class OwnDice(Sound):
    def seen(self) -> Any:
        return np.array([self.t, np.random.random()], np.float32)  # noqa: NPY002


class SlowDrift(Sound):
    """Repeats for longer than a launch tries it."""

    def seen(self) -> Any:
        drift = time.perf_counter_ns() % 97 if self.age > 60 else 0
        return np.array([self.t, self.at + drift], np.float32)


class Tires(Sound):
    """What it pays depends on the episodes before."""

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, float(self.age > 100), *rest


class LeavesThread(Sound):
    def __init__(self) -> None:
        self.over = threading.Event()
        threading.Thread(target=self.over.wait, args=(2.0,), daemon=True).start()


class LeavesProcess(Sound):
    def __init__(self) -> None:
        self.child = subprocess.Popen(["sleep", "3"])

    def __del__(self) -> None:
        self.child.kill()
        self.child.wait()


class LeavesFile(Sound):
    files: list[Any] = []

    def __init__(self) -> None:
        self.files.append(open("/dev/null", "rb"))  # noqa: SIM115


class ClosesOnce(Sound):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


class WrongShape(Sound):
    def seen(self) -> Any:
        return np.zeros(3, np.float32)


class Raises(Sound):
    def step(self, action: Any) -> Any:
        if self.age > 100:
            raise ValueError("bad joint 7")
        return super().step(action)


class Resets(GymnasiumBatch):
    """Says that an episode ended in what the reset shows."""

    def step(self, action: Any, **columns: Any) -> None:
        super().step(action, **columns)
        columns["final_obs"][...] = columns["next_obs"]


class Spoils(GymnasiumBatch):
    def step(self, action: Any, **columns: Any) -> None:
        super().step(action, **columns)
        action[...] = 1


class Forgets(GymnasiumBatch):
    """Resumes with new episodes."""

    def end_restore(self, obs: Any) -> dict[int, str]:
        self._saved = []
        return {0: "its actions were not kept"}


class Dulls(GymnasiumBatch):
    """Pays otherwise once it was resumed."""

    resumed = False

    def end_restore(self, obs: Any) -> dict[int, str]:
        self.resumed = True
        return super().end_restore(obs)

    def step(self, action: Any, **columns: Any) -> None:
        super().step(action, **columns)
        columns["reward"][...] += self.resumed


class Miscounts(GymnasiumBatch):
    def take_episodes(self) -> Any:
        taken = super().take_episodes()
        return taken._replace(lengths=[length + 1 for length in taken.lengths])


BROKEN = [
    (OwnDice, ContractBroken, "the same seed and actions must give the same episode.*np_random"),
    (SlowDrift, ContractBroken, "two batches with the same seeds and actions .* differ in 200"),
    (Tires, ContractBroken, r"whatever was played before; the reward of step 1 of episode 26 is 1"),
    (LeavesThread, ContractBroken, r"close must let go of everything; .* come threads Thread-"),
    (LeavesProcess, ContractBroken, r"with each batch made and closed come processes \d+"),
    (LeavesFile, ContractBroken, "with each batch made and closed come 3 open files"),
    (WrongShape, ConfigError, r"does not work .*shape \(3,\) of float32, its space declares"),
    (Raises, EnvironmentFailed, "in step .* of episode 14 .*bad joint 7"),
]


@pytest.mark.parametrize("kind", [Sound, ClosesOnce])
def test_sound_one_passes(kind: Any) -> None:
    check_environment(kind)
    check_environment(EnvironmentConfig(id=f"{__name__}:Sound"), envs=1, steps=20)


@pytest.mark.parametrize(("kind", "error", "said"), BROKEN)
def test_broken_one_is_refused_by_a_sentence(kind: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=rf"{kind.__name__}.*{said}"):
        check_environment(kind)


def test_simulator_that_can_not_be_repeated_says_so() -> None:
    check_environment(OwnDice, repeatable=False)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Resets, "the observation of step 7 of episode 0 is"),
        (Spoils, "step must not change the actions it is given"),
        (Miscounts, r"take_episodes must account for every episode .* got lengths \[8, 8"),
        (Dulls, "resumed at step 1 must go on as one that never stopped; what came after differs"),
        (Forgets, "saved at step 1 must come back to where it was; got its actions were not kept"),
    ],
)
def test_broken_backend_is_refused_by_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(ContractBroken, match=said):
        check_environment(Sound, make=make)
