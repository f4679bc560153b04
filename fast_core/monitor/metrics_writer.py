"""The one writer of a run's metrics: ``metrics.jsonl`` and TensorBoard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from fast_core.events import Record
from fast_core.monitor.line_file import LineFile
from fast_core.monitor.metrics_file import MetricsRow, supersede
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.tensorboard_file import TensorBoardFile

_logger = logging.getLogger(__name__)


class MetricsWriter:
    """Writes each `Record` to ``metrics.jsonl`` and TensorBoard, at its env step.

    The axis is env steps, given by the record and never counted here, so a resumed run goes on
    where its checkpoint was. Nothing raises into training: failures are counted in ``dropped``
    and the first of each kind is told to ``report``.

    Args:
        directory: The run directory.
        tensorboard: Whether to write event files too.
        report: Called with one sentence at the first failure; by default it is logged.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        tensorboard: bool,
        report: Callable[[str], None] = _logger.warning,
    ) -> None:
        self._run = run = RunDirectory(Path(directory))
        self._report = report
        self._rows = LineFile(run.metrics, report)
        self._tensorboard = tensorboard
        self._tensorboard_file: TensorBoardFile | None = None
        self._tensorboard_dropped = 0
        self._purge_step: int | None = None

    @property
    def dropped(self) -> int:
        """Rows that did not reach a file they were meant for."""
        return self._rows.dropped + self._tensorboard_dropped

    def truncate_after(self, env_steps: int) -> None:
        """Continue from a checkpoint: set aside what was written beyond it.

        Later rows go to ``metrics.superseded.jsonl``; TensorBoard gets a new event file that
        voids the later points. Call before the first `write`.
        """
        self._rows.close()
        self._close_tensorboard()
        self._purge_step = env_steps + 1
        try:
            supersede(self._run.metrics, self._run.superseded_metrics, env_steps)
        except OSError as error:
            self._report(
                f"can't set aside the rows after env step {env_steps} in {self._run.metrics}: "
                f"{error}; the file will hold both the old and the new ones"
            )

    def write(self, record: Record) -> None:
        """Write a row; names without a group go under ``train/``."""
        values = {_grouped(name): _as_float(value) for name, value in record.values.items()}
        row = MetricsRow(record.env_steps, record.updates, record.time_s, dict(values))
        # JSON has no NaN; msgspec writes null for it and for infinities.
        self._rows.write(msgspec.json.encode(row).decode())
        if self._tensorboard and values:
            self._write_tensorboard(record.env_steps, values)

    def close(self) -> None:
        """Close the files; may be called twice."""
        self._rows.close()
        self._close_tensorboard()

    def _write_tensorboard(self, env_steps: int, values: Mapping[str, float]) -> None:
        try:
            if self._tensorboard_file is None:
                self._tensorboard_file = TensorBoardFile(self._run.tensorboard, self._purge_step)
                self._purge_step = None
            self._tensorboard_file.write(env_steps, values)
        except ImportError as error:
            self._tensorboard = False
            self._report(
                f"no TensorBoard files are written: {error}. Install tensorboard, or set "
                "metrics.tensorboard=false; metrics.jsonl has the same values."
            )
        except Exception as error:  # the process boundary of a foreign library
            self._tensorboard_dropped += 1
            if self._tensorboard_dropped == 1:
                self._report(
                    f"can't write to {self._run.tensorboard}: {error}; training goes on, "
                    "further failures are only counted"
                )
            self._close_tensorboard()  # it may end inside a record: the next write begins anew

    def _close_tensorboard(self) -> None:
        file, self._tensorboard_file = self._tensorboard_file, None
        if file is not None:
            file.close()


def _grouped(name: str) -> str:
    return name if "/" in name else f"train/{name}"


def _as_float(value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
