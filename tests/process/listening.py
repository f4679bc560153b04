"""Callbacks of process tests."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

from fast_core.callbacks import Checkpoint, End, Evaluation, LiveRun, Metrics, Start

GRAVITY, RATE = "environment.attributes.gravity", "algorithm.learning_rate"


class Curriculum:
    """Raises gravity at every second checkpoint, and lowers the learning rate at evaluations."""

    def __init__(self) -> None:
        self.told = 0

    def on_start(self, start: Start, run: LiveRun) -> None:
        if start.resumed_from is None:
            run.change(GRAVITY, 5.0)

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None:
        self.told += 1
        if self.told % 2 == 0:
            run.change(GRAVITY, run.values[GRAVITY] + 2.0)

    def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None:
        run.change(RATE, run.values[RATE] * 0.9)

    def state_dict(self) -> dict[str, object]:
        return {"told": self.told}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.told = int(str(state["told"]))


class Slower:
    """Changes what an algorithm that learns from replay lets be changed."""

    def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None:
        run.change(RATE, run.values[RATE] * 0.5)
        run.change("algorithm.target_entropy", -0.1 * evaluation.number)
        run.change("environment.attributes.g", 10.0 + evaluation.number)


class Silent:
    """Has every method and does nothing."""

    def on_start(self, start: Start, run: LiveRun) -> None: ...
    def on_metrics(self, metrics: Metrics, run: LiveRun) -> None: ...
    def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None: ...
    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None: ...
    def on_end(self, end: End, run: LiveRun) -> None: ...


class Diary:
    """Writes down, as it happens, what it is told."""

    def __init__(self) -> None:
        self._early: list[str] = ["made"]

    def on_start(self, start: Start, run: LiveRun) -> None:
        self._write(run, "start")

    def on_end(self, end: End, run: LiveRun) -> None:
        self._write(run, "end")

    def _write(self, run: LiveRun, word: str) -> None:
        words, self._early = [*self._early, word], []
        with open(run.directory / "diary.txt", "a") as file:
            file.write("\n".join(words) + "\n")


class Stopper:
    """Stops at the second checkpoint, and writes down how the run ended."""

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None:
        if checkpoint.number == 2:
            run.stop("two are enough")

    def on_end(self, end: End, run: LiveRun) -> None:
        Path("end").write_text(f"{end.outcome}: {end.reason}")


class Leaver(Stopper):
    """Exits, as a library may."""

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None:
        sys.exit("no licence")


class Hanger:
    """Never returns."""

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None:
        Path("hangs").touch()
        while True:
            time.sleep(0.1)


class Keeper:
    """Keeps the interpreter's lock: nothing of Python's runs in its process any more."""

    def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None:
        Path("keeps").touch()
        ctypes.PyDLL(None).sleep(3600)
