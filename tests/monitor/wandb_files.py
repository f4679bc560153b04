"""Reads the transaction logs of Weights & Biases' offline runs."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER, BLOCK, RECORD = 7, 1 << 15, struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def read_records(path: Path) -> Iterator[Any]:
    """The records of a ``run-*.wandb`` file: LevelDB's log format, each a protocol buffer."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), HEADER, b""
    while at + RECORD.size <= len(data):
        left = BLOCK - at % BLOCK
        if left < RECORD.size:
            at += left
            continue
        _, size, kind = RECORD.unpack_from(data, at)
        at += RECORD.size + size
        parts += data[at - size : at]
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def read_history(path: Path) -> list[dict[str, Any]]:
    """What was logged, in order."""
    rows = [each.history.item for each in read_records(path) if each.HasField("history")]
    return [
        {(item.key or ".".join(item.nested_key)): json.loads(item.value_json) for item in row}
        for row in rows
    ]
