"""TensorBoard as a sink: curves over env steps, and the configuration as hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from fast_core.messages.metrics import MetricsRow, RunEnd, RunStart
from fast_core.monitor.tensorboard_file import TensorBoardFile

BEST, LAST = "hparams/best_return", "hparams/last_return"


class TensorBoardSink:
    """Writes event files into ``tensorboard/``; what a resume replaces is voided there."""

    def __init__(self) -> None:
        self._file: TensorBoardFile | None = None

    def start(self, run: RunStart) -> None:
        """Keep it: the file is made at the first row, and anew after one that failed."""
        self._run, self._began_s = run, time.time()
        self._purge_step = None if run.continued_env_steps is None else run.continued_env_steps + 1

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        """Write each row's values at its env step.

        Raises:
            OSError: The disk is full, say. The last file may end inside a record, so the next
                call begins another one.
        """
        try:
            for row in rows:
                values = {n: float("nan") if v is None else v for n, v in row.values.items()}
                if values:
                    self._open().write(row.env_steps, values)
                for name, path in row.videos.items():
                    gif = (self._run.directory / path).with_suffix(".gif")
                    if gif.exists():
                        self._open().write_gif(row.env_steps, name, gif.read_bytes())
        except BaseException:
            self._close()
            raise

    def end(self, summary: RunEnd) -> None:
        """Write the returns that stand beside the hyperparameters."""
        values = {BEST: summary.best_return, LAST: summary.last_return}
        known = {name: value for name, value in values.items() if value is not None}
        if self._file is not None:
            if known:
                self._file.write(summary.env_steps, known)
            self._file.end_hyperparameters(failed=summary.outcome == "failed")
        self._close()

    def _open(self) -> TensorBoardFile:
        if self._file is None:
            self._file = TensorBoardFile(self._run.directory / "tensorboard", self._purge_step)
            self._purge_step = None
            scalars = dict(scalars_of(self._run.config))
            self._file.begin_hyperparameters(scalars, (BEST, LAST), self._began_s)
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def scalars_of(
    group: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, bool | float | str]]:
    """The numbers, switches and texts of a configuration by dotted key; lists as text."""
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from scalars_of(value, f"{prefix}{name}.")
        elif isinstance(value, bool | int | float | str):
            yield f"{prefix}{name}", value
        elif value is not None:
            yield f"{prefix}{name}", str(value)
