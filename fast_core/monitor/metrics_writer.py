"""The one writer of a run's rows of metrics, ``metrics.jsonl``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from fast_core.messages import Record
from fast_core.messages.metrics import MetricsRow
from fast_core.monitor.line_file import LineFile
from fast_core.monitor.metrics_file import last_steps, read_rows, supersede
from fast_core.monitor.run_directory import RunDirectory

_EVALUATED = "eval/quarantined_share"  # which every evaluation's row has

_logger = logging.getLogger(__name__)


class MetricsWriter:
    """Writes each `Record` to ``metrics.jsonl``, at its env step.

    The axis is env steps, given by the record and never counted here, so a resumed run goes on
    where its checkpoint was. Nothing raises into training: the first failure is told to ``report``.

    Args:
        directory: The run directory.
        report: Called with one sentence at the first failure; by default it is logged.
    """

    def __init__(
        self, directory: str | Path, *, report: Callable[[str], None] = _logger.warning
    ) -> None:
        self._run = run = RunDirectory(Path(directory))
        self._report = report
        self._rows = LineFile(run.metrics, report)
        self._evaluated: set[tuple[int, int]] = set()  # before a resume: env steps and updates

    def written(self) -> dict[str, int]:
        """The last env step at which each value was ever written, set aside since or not."""
        return last_steps((self._run.metrics, self._run.superseded_metrics))

    def truncate_after(self, env_steps: int) -> None:
        """Continue from a checkpoint: set aside what was written beyond it.

        Later rows go to ``metrics.superseded.jsonl``. Call before the first `write`. Evaluations
        that were on their way when the checkpoint was cut are played again; one whose row is kept
        gets no second one.
        """
        self._rows.close()
        try:
            supersede(self._run.metrics, self._run.superseded_metrics, env_steps)
        except OSError as error:
            self._report(
                f"can't set aside the rows after env step {env_steps} in {self._run.metrics}: "
                f"{error}; the file will hold both the old and the new ones"
            )
        kept = (row for row in read_rows(self._run.metrics) if _EVALUATED in row.values)
        self._evaluated = {(row.env_steps, row.updates) for row in kept}

    def write(self, record: Record) -> MetricsRow | None:
        """Write a row, and return it; names without a group go under ``train/``.

        None where it is an evaluation that is on file already.
        """
        if _EVALUATED in record.values and (record.env_steps, record.updates) in self._evaluated:
            return None
        values = {_grouped(name): _as_float(value) for name, value in record.values.items()}
        row = MetricsRow(
            record.env_steps, record.updates, record.time_s, dict(values), record.videos
        )
        # JSON has no NaN; msgspec writes null for it and for infinities.
        self._rows.write(msgspec.json.encode(row).decode())
        return row

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._rows.close()


def _grouped(name: str) -> str:
    return name if "/" in name else f"train/{name}"


def _as_float(value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
