"""What is nested too deeply is refused as other damage is, by all who read it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fast_core.dashboard.clients import understand
from fast_core.envs.stepping.batch_state import decode_state
from fast_core.errors import CheckpointError, TransportError
from fast_core.messages.requests import decode_answer, decode_request
from fast_core.messages.wire import decode_command, decode_event
from fast_core.monitor import checkpoint_files
from fast_core.monitor.journal import read_entries
from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import read_served
from fast_core.policy.file import read_policy
from fast_core.run.schedule import read_schedule
from fast_core.scheduler.state import SavedState
from fast_core.system import state_file
from fast_core.system.decoding import MOST_LEVELS, JsonDecoder, from_json, from_msgpack

DEEP = 50_000
JSON = b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}"
DEEP_MSGPACK = b"\x91" * DEEP + b"\xc0"
MSGPACK = b"\x81\xa1x" + DEEP_MSGPACK
EVENT = b"\x01\x83\xa4type\xa5Ready\xa4node\xa5env-0\xa1x" + DEEP_MSGPACK
COMMAND = b"\x01\x82\xa4type\xa4Stop\xa1x" + DEEP_MSGPACK
POLICY = b"\x83\xaffastloop_policy\x01\xa1a" + DEEP_MSGPACK + b"\xa1b\x02"


@pytest.mark.parametrize(("read", "one"), [(from_json, b"[%b]"), (from_msgpack, b"\x91%b")])
def test_plain_values_are_read_as_deep_as_others_can_follow(
    read: Callable[[bytes], Any], one: bytes
) -> None:
    value = b"1" if read is from_json else b"\x01"
    for _ in range(MOST_LEVELS - 1):
        value = one % value
    found = read(value)
    for _ in range(MOST_LEVELS - 1):
        (found,) = found
    assert found == 1
    for levels in (1, 300, DEEP):
        deeper = value
        for _ in range(min(levels, 300)):
            deeper = one % deeper
        with pytest.raises(msgspec.DecodeError, match="nested"):
            read(deeper if levels < DEEP else {from_json: JSON, from_msgpack: MSGPACK}[read])


def test_decoder_of_a_kind_refuses_what_is_nested_in_what_it_passes_over() -> None:
    decoder = JsonDecoder(RowOf)
    assert decoder.decode(b'{"a": 1, "x": [[2]]}') == RowOf(1)
    for damaged in (JSON, b'{"a": "\xff"}', b'{"a": "1"}', b"{", b""):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(damaged)


class RowOf(msgspec.Struct):
    a: int


@pytest.mark.parametrize(
    ("read", "data", "refusal"),
    [
        (decode_request, JSON, TransportError),
        (decode_answer, JSON, TransportError),
        (decode_event, EVENT, TransportError),
        (decode_command, COMMAND, TransportError),
        (understand, JSON, ValueError),
        (SavedState, MSGPACK, CheckpointError),
        (lambda data: decode_state(data, id="", envs=1), MSGPACK, CheckpointError),
    ],
)
def test_message_that_is_nested_too_deeply_is_refused(
    read: Callable[[bytes], object], data: bytes, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal, match="nested too deeply"):
        read(data)


def gzipped(piece: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(struct.pack("<I", len(piece)) + piece) + packer.flush()


@pytest.mark.parametrize(
    ("read", "name", "data"),
    [
        (lambda path: checkpoint_files.check(path.parent), "manifest.json", JSON),
        (state_file.load, "learner.msgpack", MSGPACK),
        (state_file.load, "learner.msgpack", b"\x81\xa1x" + b"\x91" * 500 + b"\xc0"),
        (read_schedule, "part-0.gz", gzipped(MSGPACK)),
        (read_policy, "best.policy", POLICY),
        (read_policy, "best-policy.msgpack", MSGPACK),
    ],
)
def test_file_that_is_nested_too_deeply_is_refused(
    tmp_path: Path, read: Callable[[Path], object], name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckpointError):
        read(tmp_path / name)


def test_lines_and_notes_that_are_nested_too_deeply_are_passed_over(tmp_path: Path) -> None:
    for name in ("events.jsonl", "metrics.jsonl", "dashboard.json", "versions.json"):
        (tmp_path / name).write_bytes(JSON + b"\n")
    assert list(read_entries(tmp_path / "events.jsonl")) == []
    assert list(read_rows(tmp_path / "metrics.jsonl")) == []
    assert read_served(tmp_path / "dashboard.json") is None
    RunDirectory(tmp_path).look_where_it_began()
