"""One TensorBoard event file, written without TensorBoard.

The package brings eight others, gRPC among them, and takes a tenth of a second or two to import;
a file is a sequence of small messages of Protocol Buffers, each between its length and a checksum.
Field numbers are those of TensorFlow's event.proto, summary.proto, tensor.proto and of the HParams
plugin's api.proto and plugin_data.proto. TensorBoard itself reads the files in the tests.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

_PREFIX = "events.out.tfevents."
_GIF_SIZE, _GIF_SIZE_AT, _RGB = struct.Struct("<HH"), 6, 3
_START = 1  # SessionLog's
_FLOAT = 1  # TensorFlow's DT_FLOAT
_SUCCESS, _FAILURE = 1, 2  # Status of the HParams plugin
# Of a hyperparameter's value: its DataType there, and its field in a Value.
_KINDS = {str: (1, 3), bool: (2, 4), int: (3, 2), float: (3, 2)}


class TensorBoardFile:
    """Appends to a new event file in ``directory``, one unbuffered write each.

    Args:
        directory: TensorBoard reads its event files in the order of their names; the new one
            sorts behind all that are there, whatever the clock did.
        purge_step: Points at this step or later in earlier files are void; None keeps all.

    Raises:
        OSError: The file can't be made.
    """

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / _next_name(directory)
        # Unbuffered, so that one record is one write and a killed process loses none.
        self._file: BinaryIO = self.path.open("xb", buffering=0)
        try:
            self._append((3, "brain.Event:2"))
            if purge_step is not None:
                self._append((2, purge_step), (7, _message((1, _START))))
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
        points = [(1, _message((1, name), (2, _Single(value)))) for name, value in values.items()]
        self._append((2, step), (5, _message(*points)))

    def write_gif(self, step: int, name: str, gif: bytes) -> None:
        """Append an animated picture at a step.

        Raises:
            OSError: As `write`.
        """
        width, height = _GIF_SIZE.unpack_from(gif, _GIF_SIZE_AT)
        image = _message((1, height), (2, width), (3, _RGB), (4, gif))
        self._append((2, step), (5, _message((1, _message((1, name), (4, image))))))

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
        named, given = [], []
        for name, value in values.items():
            data_type, field = _KINDS[type(value)]
            number = float(value) if field == 2 else value
            named.append((4, _message((1, name), (4, data_type))))
            given.append((1, _message((1, name), (2, _message((field, number))))))
        shown = [(5, _message((1, _message((2, tag))))) for tag in metrics]
        experiment = _message((3, float(began_s)), *named, *shown)
        self._append_hyperparameters("experiment", (2, experiment))
        begun = _message(*given, (5, float(began_s)))
        self._append_hyperparameters("session_start_info", (3, begun))

    def end_hyperparameters(self, *, failed: bool) -> None:
        """Say how the run ended, for the HParams plugin."""
        ended = _message((1, _FAILURE if failed else _SUCCESS), (2, time.time()))
        self._append_hyperparameters("session_end_info", (4, ended))

    def _append_hyperparameters(self, tag: str, data: tuple[int, bytes]) -> None:
        plugin = _message((1, "hparams"), (2, _message(data)))
        tensor = _message((1, _FLOAT), (5, _Single(0.0)))  # the plugin wants one number
        value = _message((1, f"_hparams_/{tag}"), (8, tensor), (9, _message((1, plugin))))
        self._append((5, _message((1, value))))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, *fields: tuple[int, _Value]) -> None:
        data = _message((1, time.time()), *fields)
        length = struct.pack("<Q", len(data))
        self._file.write(length + _checksum(length) + data + _checksum(data))


class _Single(float):
    """A number of 32 bits."""


_Value = bool | int | float | str | bytes


def _message(*fields: tuple[int, _Value]) -> bytes:
    """Protocol Buffers' form of some fields, by their numbers: the kind follows from the type."""
    parts = []
    for number, value in fields:
        match value:
            case _Single():
                parts += [_varint(number << 3 | 5), _single(value)]
            case float():
                parts += [_varint(number << 3 | 1), struct.pack("<d", value)]
            case bool() | int():
                parts += [_varint(number << 3), _varint(int(value))]
            case _:
                data = value.encode("utf-8", "replace") if isinstance(value, str) else value
                parts += [_varint(number << 3 | 2), _varint(len(data)), data]
    return b"".join(parts)


def _single(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of TensorFlow's record files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _next_name(directory: Path) -> str:
    stamps = [int(time.time())]
    for path in directory.glob(f"{_PREFIX}*"):
        stamp = path.name.removeprefix(_PREFIX).partition(".")[0]
        if stamp.isdigit():
            stamps.append(int(stamp) + 1)
    return f"{_PREFIX}{max(stamps):010d}.{socket.gethostname()}.{os.getpid()}"
