"""Environments that misbehave on purpose; importing this module registers `fastloop/Toy-v0`."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

FOR_EVER_S = 3600


class Toy(gymnasium.Env[np.ndarray, np.int64]):
    """Observes (step of the episode, what reset drew); does ``fault`` in step ``at``.

    Args:
        fault: What goes wrong, see `_fault`; empty for nothing.
        at: Step of the episode in which it goes wrong.
        folder: Where marks are left; only the first environment that gets there goes wrong.
        process: Which process that makes this environment fails, or the first one that does, 0
            being the probe; for faults in the constructor.
        step_s: How long a step takes, s.
        length: Steps of an episode.
        made_s: How long the constructor takes, s.
    """

    def __init__(
        self,
        fault: str = "",
        at: int = 37,
        folder: str = "",
        process: int = 0,
        step_s: float = 0.0,
        length: int = 100,
        made_s: float = 0.0,
    ) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(2)
        self._fault_name, self._at, self._folder = fault, at, Path(folder)
        self._step_s, self._length = step_s, length
        self._steps = 0
        self._drawn = 0.0
        time.sleep(made_s)
        if folder:
            self._leave_mark("made")
        if fault.startswith("constructor") and _process_number(self._folder) == process:
            _fail_while_made(fault.partition(" ")[2])
        if fault == "no licence since" and _process_number(self._folder) >= process:
            raise RuntimeError("no licence")
        if fault == "child":
            subprocess.Popen(["sleep", str(FOR_EVER_S)])
        if fault == "deaf child":
            subprocess.Popen(["bash", "-c", f"trap '' TERM; sleep {FOR_EVER_S} & wait; wait"])
        if fault == "daemon":
            subprocess.Popen(["sleep", str(FOR_EVER_S)], start_new_session=True)
        if fault == "simulator":
            self._simulator = multiprocessing.get_context("fork").Process(
                target=time.sleep, args=(FOR_EVER_S,), daemon=True
            )
            self._simulator.start()
        if fault in ("helper", "helper session"):
            self._leave_mark("helpers", _fork_and_stay(session=fault == "helper session"))
        if fault == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if fault == "seizes signals":
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        if fault == "chatty":
            logging.getLogger("toy").warning("made in process %d", os.getpid())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        self._drawn = float(self.np_random.random())
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._step_s:
            time.sleep(self._step_s)
        if self._steps == self._at and self._fault_name not in ("", "nan") and self._is_first():
            self._fault()
        if self._fault_name == "slows" and self._steps > 30 and (self._folder / "slow").exists():
            self._leave_mark("slowed")  # the probe takes 30 steps
            time.sleep(0.1)
        if self._fault_name == "forks":
            _fork_helper()
        if self._fault_name == "chatty":
            logging.getLogger("toy").info("step %d", self._steps)
        if self._fault_name == "nan" and self._steps == self._at:
            return np.full(2, np.nan, np.float32), -1.0, False, False, {}
        ends = self._steps >= self._length
        return self._observe(), float(action), ends, False, {}

    def close(self) -> None:
        if self._folder != Path():
            self._leave_mark("closed")
        if self._fault_name == "simulator":
            self._simulator.terminate()
            self._simulator.join()
        if self._fault_name.startswith("close") and (self._folder / "trained").exists():
            if self._fault_name == "close exit":
                os._exit(7)
            raise RuntimeError("window gone")

    def _observe(self) -> np.ndarray:
        drifts = self._fault_name == "drift" and self._steps > self._at
        drift = time.perf_counter_ns() % 97 if drifts else 0.0
        return np.array([self._steps / self._length, self._drawn + drift], np.float32)

    def _fault(self) -> None:
        match self._fault_name:
            case "raise":
                _move_joint(7)
            case "sleep" | "deaf":
                time.sleep(FOR_EVER_S)
            case "gil":
                ctypes.PyDLL(None).sleep(FOR_EVER_S)  # unlike CDLL, it keeps the GIL
            case "stuck in c":
                mutex = ctypes.create_string_buffer(64)
                for _ in range(2):  # the second time for ever, whatever signals come
                    ctypes.CDLL(None).pthread_mutex_lock(mutex)
            case "surrogate":
                raise RuntimeError("caf\udce9")
            case "exit":
                os._exit(7)
            case "exec":
                os.execvp("sleep", ["sleep", str(FOR_EVER_S)])
            case "leave":
                sys.exit(0)
            case "leave with text":
                sys.exit("the licence has expired")
            case "cancelled":
                raise asyncio.CancelledError("by the simulator")
            case "segfault":
                ctypes.string_at(0)

    def _is_first(self) -> bool:
        if self._folder == Path():
            return True
        return _claim(self._folder / "went-wrong")

    def _leave_mark(self, word: str, process: int | None = None) -> None:
        """One line a mark; an append of a short line is whole whoever else appends."""
        with open(self._folder / word, "a", encoding="ascii") as file:
            file.write(f"{process or os.getpid()} {id(self)}\n")


def _fail_while_made(fault: str) -> NoReturn:
    if fault == "child":
        subprocess.Popen(["sleep", str(FOR_EVER_S)])
    time.sleep(FOR_EVER_S if fault else 0.3)
    raise RuntimeError("no licence")


def _move_joint(number: int) -> NoReturn:
    raise ValueError(f"bad joint {number}")


def _fork_helper() -> None:
    """What simulators do that call ``fork`` themselves: a child that does little and leaves.

    It leaves as a program does, through all that called this.
    """
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def _fork_and_stay(*, session: bool) -> int:
    """A child that lives on, without ``exec``, perhaps in a session of its own; its number."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            if session:
                os.setsid()
            time.sleep(FOR_EVER_S)
        os._exit(0)
    return pid


_number: list[int] = []


def _process_number(folder: Path) -> int:
    """The how-manieth process this is of those that made an environment, from 0."""
    if not _number or _number[0] != os.getpid():
        number = 0
        while not _claim(folder / f"process-{number}"):
            number += 1
        _number[:] = [os.getpid(), number]
    return _number[1]


def _claim(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


gymnasium.register("fastloop/Toy-v0", entry_point=Toy)
