"""The configurations of many runs, which mostly differ in the seed alone."""

from __future__ import annotations

import re

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.launcher.run import load_run_config
from fast_core.monitor.run_directory import RunDirectory

_SEED = re.compile(r"^seed: .*$", re.MULTILINE)


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
