"""Starts GOPS scripts as a user does, plainly and through `fastloop gops`."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[3]
STANDIN = Path(__file__).with_name("standin")
WITHIN_S = 570.0


@dataclass(frozen=True)
class Runs:
    """Runs scripts with one Python.

    Attributes:
        python: It.
        path: Folders that it imports from, beside FastLoop's.
        bin: A folder of programs that come before all others.
    """

    python: str = sys.executable
    path: tuple[Path, ...] = ()
    bin: Path | None = None

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(str(each) for each in (ROOT, *self.path))
        programs = os.pathsep.join(filter(None, (self.bin and str(self.bin), os.environ["PATH"])))
        return {**os.environ, "PYTHONPATH": path, "PATH": programs, "MPLBACKEND": "agg"}

    def start(self, *command: str | Path, **how: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, *map(str, command)],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **how,
        )

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """What it printed; it must end well."""
        process = self.start(*command, cwd=cwd)
        try:
            text, _ = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
        assert process.returncode == 0, text
        return text

    def fastloop(self, *command: str | Path, cwd: Path | None = None) -> str:
        return self.run("-m", "fast_core.tools.cli", "gops", *command, cwd=cwd)


def networks(folder: Path, iteration: int) -> dict[str, torch.Tensor]:
    """What a run saved."""
    return dict(torch.load(folder / "apprfunc" / f"apprfunc_{iteration}.pkl"))


def different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of those that aren't the same to the last bit."""
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]
