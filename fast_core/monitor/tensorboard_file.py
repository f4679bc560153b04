"""One TensorBoard event file, written without importing torch or tensorflow.

Importing the library takes a tenth of a second or two, so it happens at the first write and not
at start-up. Only its record format and its message types are used: its own event file writer
would start a thread and keep seconds of points in memory.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

_PREFIX = "events.out.tfevents."
_GIF_SIZE, _GIF_SIZE_AT, _RGB = struct.Struct("<HH"), 6, 3
_FLOAT = 1  # TensorFlow's DT_FLOAT
_KINDS = {bool: "BOOL", int: "FLOAT64", float: "FLOAT64", str: "STRING"}


class TensorBoardFile:
    """Appends to a new event file in ``directory``, one unbuffered write each.

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

    def write_gif(self, step: int, name: str, gif: bytes) -> None:
        """Append an animated picture at a step.

        Raises:
            OSError: As `write`.
        """
        width, height = _GIF_SIZE.unpack_from(gif, _GIF_SIZE_AT)
        summary = self._summary()
        image = summary.value.add(tag=name).image
        image.width, image.height, image.colorspace = width, height, _RGB
        image.encoded_image_string = gif
        self._append(self._event(wall_time=time.time(), step=step, summary=summary))

    def begin_hyperparameters(
        self,
        values: Mapping[str, bool | float | str],
        metrics: Sequence[str],
        began_s: float,
    ) -> None:
        """Say what the run was made with, for the HParams plugin.

        Args:
            values: The hyperparameters.
            metrics: Tags of the scalars that stand beside them.
            began_s: When the run began, of the time of day.
        """
        import tensorboard.plugins.hparams.api_pb2 as api_pb2  # type: ignore[import-untyped]
        import tensorboard.plugins.hparams.plugin_data_pb2 as data_pb2  # type: ignore[import-untyped]
        from google.protobuf import struct_pb2

        experiment = api_pb2.Experiment(time_created_secs=began_s)
        for name in metrics:
            experiment.metric_infos.add(name=api_pb2.MetricName(tag=name))
        for name, value in values.items():
            kind = getattr(api_pb2, f"DATA_TYPE_{_KINDS[type(value)]}")
            experiment.hparam_infos.add(name=name, type=kind)
        data = struct_pb2.Struct()
        data.update(values)
        begun = data_pb2.SessionStartInfo(hparams=data.fields, start_time_secs=began_s)
        self._append_hyperparameters("experiment", experiment=experiment)
        self._append_hyperparameters("session_start_info", session_start_info=begun)

    def end_hyperparameters(self, *, failed: bool) -> None:
        """Say how the run ended, for the HParams plugin."""
        import tensorboard.plugins.hparams.api_pb2 as api_pb2
        import tensorboard.plugins.hparams.plugin_data_pb2 as data_pb2

        status = api_pb2.STATUS_FAILURE if failed else api_pb2.STATUS_SUCCESS
        ended = data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        self._append_hyperparameters("session_end_info", session_end_info=ended)

    def _append_hyperparameters(self, tag: str, **data: object) -> None:
        import tensorboard.plugins.hparams.plugin_data_pb2 as data_pb2

        summary = self._summary()
        value = summary.value.add(tag=f"_hparams_/{tag}")
        plugin = value.metadata.plugin_data
        plugin.plugin_name = "hparams"
        plugin.content = data_pb2.HParamsPluginData(version=0, **data).SerializeToString()
        value.tensor.dtype = _FLOAT
        value.tensor.float_val.append(0.0)  # the plugin wants one
        self._append(self._event(wall_time=time.time(), summary=summary))

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
