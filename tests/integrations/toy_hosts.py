"""Hosts for the tests of `AsyncTrainer`; collectors and evaluators of a run in processes too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from fast_core.integrations import AsyncTrainer
from fast_core.system.forks import WARNINGS


class Collector:
    """Gives four steps, of the version that acted."""

    def __init__(self, rank: int = 0, seed: int = 0, wait_s: float = 0.0) -> None:
        self.rank, self.wait_s = rank, wait_s
        self.version = self.calls = 0

    def collect(self) -> list[tuple[int, int]]:
        time.sleep(self.wait_s)
        self.calls += 1
        return [(self.rank, self.version)] * 4

    def load_weights(self, state: dict[str, int], version: int) -> None:
        assert state["n"] == version
        self.version = version


class Raising(Collector):
    def collect(self) -> Any:
        if self.calls == 2:
            raise ZeroDivisionError("the third one")
        return super().collect()


class Hanging(Collector):
    def collect(self) -> Any:
        if self.calls == 2:
            time.sleep(1_000)
        return super().collect()


class Killed(Collector):
    def collect(self) -> Any:
        if self.calls == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().collect()


class Warned(Collector):
    """Gets what a batch system sends to all processes of a job."""

    def collect(self) -> Any:
        for number in WARNINGS:
            os.kill(os.getpid(), number)
        return super().collect()


class Simulating(Collector):
    """Has a simulator in a process of its own; both say who they are in a file of the folder."""

    def __init__(self, rank: int, seed: int, folder: str) -> None:
        super().__init__(wait_s=0.02)
        simulator = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        for pid in (os.getpid(), simulator.pid):
            Path(folder, f"pid-{pid}").touch()


class Learner:
    """Counts; `get_weights` gives what it changes itself, as most do."""

    def __init__(self, wait_s: float = 0.0) -> None:
        self.wait_s, self.state, self.batches = wait_s, {"n": 0}, list[Any]()

    def train(self, batch: Any) -> dict[str, float]:
        time.sleep(self.wait_s)
        self.batches.append(batch)
        self.state["n"] += 1
        return {"loss": 1.0}

    def get_weights(self) -> dict[str, int]:
        return self.state


class Evaluator(Collector):
    def eval(self) -> float:
        time.sleep(self.wait_s)
        return float(self.version)


class Odd:
    """Can be sent, and not be made again."""

    def __reduce__(self) -> Any:
        return refuse, ()


def refuse() -> None:
    raise ValueError("not here")


class Giving(Collector):
    """Gives what is asked for."""

    def __init__(self, rank: int, seed: int, what: str) -> None:
        super().__init__(rank)
        self.what = what

    def collect(self) -> Any:
        if self.what == "exit":
            sys.exit(3)
        return {
            "lock": lambda: [threading.Lock()],
            "generator": lambda: (number for number in range(3)),
            "odd": lambda: [Odd()],
            "graph": self.graph,
        }[self.what]()

    def graph(self) -> Any:
        import torch  # here, since most processes need none

        return {"obs": np.ones(200_000), "loss": torch.ones(2, requires_grad=True).sum()}

    def count_env_steps(self, data: Any) -> int:
        return 4


class Forking(Collector):
    """Is killed, and what it has forked is not."""

    def collect(self) -> Any:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def toy_trainer(**parts: Any) -> AsyncTrainer:
    """One whose collector and learner are toys where they are not given."""
    return AsyncTrainer(**{"collector": Collector(), "learner": Learner(), **parts})


def run(limit: int = 3, **parts: Any) -> Any:
    """What such a one comes to after so many updates."""
    return toy_trainer(**parts).run(max_train_iter=limit)
