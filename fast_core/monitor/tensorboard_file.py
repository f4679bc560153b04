"""One TensorBoard event file, written without importing torch or tensorflow.

Importing the library takes a tenth of a second or two, so it happens at the first write and not
at start-up. Only its record format and its message types are used: its own event file writer
would start a thread and keep seconds of points in memory.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

_PREFIX = "events.out.tfevents."


class TensorBoardFile:
    """Appends scalars to a new event file in ``directory``, one unbuffered write each.

    Args:
        directory: TensorBoard reads its event files in the order of their names; the new one
            sorts behind all that are there, whatever the clock did.
        purge_step: Points at this step or later in earlier files are void; None keeps all.

    Raises:
        OSError: The file can't be made.
        ImportError: The tensorboard package is missing.
    """

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        import tensorboard.compat.proto.event_pb2 as event_pb2  # type: ignore[import-untyped]
        import tensorboard.compat.proto.summary_pb2 as summary_pb2  # type: ignore[import-untyped]
        import tensorboard.summary.writer.record_writer as record_writer  # type: ignore[import-untyped]

        self._event = event_pb2.Event
        self._summary = summary_pb2.Summary
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / _next_name(directory)
        # Unbuffered, so that one record is one write and a killed process loses none.
        self._file: BinaryIO = self.path.open("xb", buffering=0)
        self._records = record_writer.RecordWriter(self._file)
        try:
            self._append(self._event(wall_time=time.time(), file_version="brain.Event:2"))
            if purge_step is not None:
                start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                self._append(self._event(wall_time=time.time(), step=purge_step, session_log=start))
        except OSError:
            # On a full disk every further try would leave one more empty file.
            self._file.close()
            self.path.unlink(missing_ok=True)
            raise

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append scalars at a step.

        Raises:
            OSError: The write failed; the file may end inside a record, so begin another one.
        """
        summary = self._summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=value)
        self._append(self._event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, event: object) -> None:
        self._records.write(event.SerializeToString())  # type: ignore[attr-defined]


def _next_name(directory: Path) -> str:
    stamps = [int(time.time())]
    for path in directory.glob(f"{_PREFIX}*"):
        stamp = path.name.removeprefix(_PREFIX).partition(".")[0]
        if stamp.isdigit():
            stamps.append(int(stamp) + 1)
    return f"{_PREFIX}{max(stamps):010d}.{socket.gethostname()}.{os.getpid()}"
