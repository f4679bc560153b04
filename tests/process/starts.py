"""Environments that note each episode that they begin; importing this registers one of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium

from tests.process.echo import Ticket

_made: dict[int, int] = {}  # how many each process has made; a fork begins anew


class Starts(Ticket):
    """`Ticket` that takes 0.3 s to be made while ``slow`` is in the folder.

    Args:
        folder: Where the seeds of episodes are noted.
        dies_at: The how-manieth that a process makes kills it, once ``die`` is in the folder, and
            only once.
    """

    def __init__(self, folder: str, dies_at: int = 0) -> None:
        self._folder = Path(folder)
        time.sleep(0.3 * (self._folder / "slow").exists())
        _made[os.getpid()] = _made.get(os.getpid(), 0) + 1
        die = self._folder / "die"
        if _made[os.getpid()] == dies_at and die.exists():
            die.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        with open(self._folder / "starts", "a", encoding="ascii") as file:
            file.write(f"{seed}\n")
        return super().reset(seed=seed, options=options)


gymnasium.register("fastloop/Starts-v0", Starts)
