"""Weights & Biases as a sink."""

from __future__ import annotations

import importlib
import inspect
import os
import secrets
import sys
from collections.abc import Sequence
from typing import Any

from fast_core.errors import ConfigError
from fast_core.messages.metrics import MetricsRow, RunEnd, RunStart
from fast_core.system.durable import write_durably
from fast_core.system.extras import to_install

STEP = "env_steps"
OURS = ("config", "dir", "id", "reinit", "resume")
# Whoever runs in this process and had W&B before keeps its service.
_ALONE = "wandb" not in sys.modules


class WandbSink:
    """Logs to one W&B run for a run directory, however often that is resumed.

    W&B takes nothing back: points of an earlier part of the run that lie after the checkpoint that
    it goes on from stay, and the new part adds points from there on, so that none is doubled.
    """

    def __init__(self, **init: Any) -> None:
        """``init`` are arguments of ``wandb.init``.

        Raises:
            ConfigError: The package is missing, or an argument is none of those that are free.
        """
        try:
            self._wandb: Any = importlib.import_module("wandb")
        except ImportError as error:
            raise ConfigError(
                f"'wandb' needs Weights & Biases: {error}. Run {to_install('wandb')}, or take it "
                "out."
            ) from error
        known = inspect.signature(self._wandb.init).parameters
        for name in init:
            if name in OURS or name not in known:
                free = ", ".join(each for each in known if each not in OURS)
                raise ConfigError(f"'wandb' can't be given {name!r}; kwargs may have {free}.")
        self._init = init

    def start(self, run: RunStart) -> None:
        """Begin the W&B run, or go on with that of the run directory."""
        folder = run.directory / "wandb"
        folder.mkdir(exist_ok=True)
        identity = folder / "fastloop-id.txt"
        if not identity.exists():
            write_durably(identity, secrets.token_hex(4).encode())
        given = {"name": run.directory.name, **self._init}
        given.setdefault("project", os.environ.get("WANDB_PROJECT") or run.name)
        settings = {"console": "off", "silent": True}
        if isinstance(given.get("settings"), dict):
            settings |= given.pop("settings")
        self._run = self._wandb.init(
            **{"settings": settings, **given},
            config=dict(run.config),
            dir=str(run.directory),
            id=identity.read_text().strip(),
            resume="allow",
            reinit="create_new",
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)
        self._written, self._directory = run.written, run.directory

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        """Log what was not logged before."""
        for row in rows:
            new = {n: v for n, v in row.values.items() if row.env_steps > self._written.get(n, -1)}
            if new:
                facts = {STEP: row.env_steps, "updates": row.updates, "time_s": row.time_s}
                self._run.log({**facts, **new, **self._films(row)})

    def _films(self, row: MetricsRow) -> dict[str, object]:
        """Those of a row that are still kept: newer ones may have replaced some."""
        paths = {name: self._directory / path for name, path in row.videos.items()}
        return {
            name: self._wandb.Video(str(path), format=path.suffix.removeprefix("."))
            for name, path in paths.items()
            if path.exists()
        }

    def end(self, summary: RunEnd) -> None:
        """Write how it ended, wait for the upload, and let W&B's service go."""
        for name in ("outcome", "best_return", "last_return"):
            self._run.summary[name] = getattr(summary, name)
        self._run.finish(exit_code=int(summary.outcome == "failed"))
        if _ALONE:
            self._wandb.teardown()
