"""The runs of a sweep, each found again in its directory: there is no other record of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.config import yaml_text as config_yaml
from fast_core.config.leaves import differences
from fast_core.errors import ConfigError
from fast_core.launcher.run import load_run_config
from fast_core.monitor.figures import cut
from fast_core.monitor.run_directory import RunDirectory, runs_in
from fast_core.monitor.run_state import RunState, read_state
from fast_core.system.durable import write_durably
from fast_core.system.forks import STOP_SIGNALS
from fast_core.tools.sweep.child import Child
from fast_core.tools.sweep.file import Sweep, Variant

LAUNCH_FILE = "launch.yaml"  # in a variant's folder: what its runs are launched with
_CAUSE = 300
_SEED = re.compile(r"^seed: .*$", re.MULTILINE)
_LOOKED_AT_BYTES = 1 << 16

Status = Literal["waiting", "running", "elsewhere", "finished", "failed", "interrupted"]


class RunConfigs:
    """Reads the configurations of runs; of those that differ in their seed alone, one."""

    def __init__(self) -> None:
        self._read: dict[str, RunConfig] = {}

    def __getitem__(self, run: RunDirectory) -> RunConfig:
        """The configuration of a run but for its seed; the same object for all that are alike.

        Raises:
            ConfigError: It can't be read.
        """
        alike = _SEED.sub("", config_file.read_text(run.config))
        if alike not in self._read:
            self._read[alike] = load_run_config(run, [])
        return self._read[alike]


@dataclass
class Task:
    """One run of a sweep.

    Attributes:
        variant: Its configuration but for the seed.
        seed: The run's seed.
        folder: The variant's folder.
        status: Waiting is what is still to be done; elsewhere is what another process trains.
        state: What its newest directory says, None where there is none.
        cause: Why it failed.
        child: Its process, while it runs.
        slot: Which of the places it runs in.
    """

    variant: Variant
    seed: int
    folder: Path
    status: Status = "waiting"
    state: RunState | None = None
    cause: str = ""
    child: Child | None = None
    slot: int = 0
    _log_from: int = field(default=0, repr=False)
    _before: Path | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What it is called, for people."""
        return f"{self.variant.name} seed {self.seed}"

    @property
    def log(self) -> Path:
        """Takes what the run prints."""
        return self.folder / f"seed{self.seed}.log"

    @property
    def fraction(self) -> float | None:
        """How much of its environment steps is done; None where their number does not end it."""
        limit = self.variant.config.stop.env_steps
        if limit is None or self.state is None:
            return None
        return min(1.0, self.state.env_steps / limit)

    def look(self) -> None:
        """See how it stands, from its directory."""
        path = self._newest()
        self.state = None if path is None else read_state(path, _LOOKED_AT_BYTES)

    def settle(self) -> None:
        """See whether it is still to be done; for what no process of the sweep runs."""
        self.look()
        states: dict[str, Status] = {"finished": "finished", "running": "elsewhere"}
        self.status = states.get(self.state.state, "waiting") if self.state else "waiting"

    def check(self, configs: RunConfigs) -> None:
        """See whether its directory is that of the run that the sweep asks for.

        Raises:
            ConfigError: Some key differs; it can't be gone on with, nor begun beside it.
        """
        if self.state is None:
            return
        run = RunDirectory(self.state.path)
        for key, (wanted, found) in differences(self.variant.config, configs[run]).items():
            raise ConfigError(
                f"{key} is {config_yaml.inline(wanted)} in the sweep, but a run of it was made "
                f"with {config_yaml.inline(found)} ({str(run.config)!r}). More seeds and more "
                "values extend a sweep; for other runs give it another `name`, or move its folder "
                "away."
            )

    def start(self, cores: Sequence[int], slot: int) -> None:
        """Begin it, or go on with it from its newest checkpoint."""
        if self.state is not None and self.state.checkpoint:
            arguments = ["resume", str(self.state.path)]
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            file, config = self.folder / LAUNCH_FILE, self.variant.config
            write_durably(file, config_file.dumps(config).encode())
            if (code := config.environment.pickled) is not None:  # named without its folder
                write_durably(self.folder / Path(code).name, Path(code).read_bytes())
            arguments = ["launch", str(file), f"seed={self.seed}"]
            self._before = self.state.path if self.state is not None else None
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self.child, self.slot, self.status = Child(arguments, cores, self.log), slot, "running"

    def poll(self, *, stopping: bool) -> bool:
        """See whether its process has ended; true if it just has.

        ``stopping`` says that the sweep has asked it to.
        """
        if self.child is None or (status := self.child.status()) is None:
            return False
        self.child = None
        self.look()
        began = self.state is not None and self.state.path != self._before
        state = self.state.state if self.state is not None and began else None
        if status == 0 and state == "finished":
            self.status = "finished"
        elif state == "failed" and self.state is not None:
            self.status, self.cause = "failed", self.state.text
        elif stopping or status - 128 in STOP_SIGNALS:
            self.status = "interrupted"
        else:
            self.status, self.cause = "failed", self._last_words(status)
        return True

    def _newest(self) -> Path | None:
        """Its newest directory that has a configuration; others never began."""
        if not self.folder.is_dir():
            return None
        mine = [run for run in runs_in(self.folder) if f"seed{self.seed}" in run.name.split("_")]
        return next((run for run in reversed(mine) if RunDirectory(run).config.is_file()), None)

    def _last_words(self, status: int) -> str:
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        with self.log.open("rb") as file:
            file.seek(self._log_from)
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        said = cut(lines[-1].removeprefix("fastloop: "), _CAUSE) if lines else "it said nothing"
        return said


def tasks_of(sweep: Sweep) -> list[Task]:
    """Every run; seed by seed, so that all variants have one before any has two."""
    return [
        Task(variant, seed, sweep.folder / variant.name)
        for seed in sweep.seeds
        for variant in sweep.variants
    ]


def others(sweep: Sweep, found: Iterator[Path]) -> int:
    """Runs in the sweep's folder that it does not ask for (any more)."""
    wanted = {(variant.name, f"seed{seed}") for variant in sweep.variants for seed in sweep.seeds}
    return sum(
        not any((path.parent.name, part) in wanted for part in path.name.split("_"))
        for path in found
    )
