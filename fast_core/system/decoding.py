"""JSON and MessagePack that others may have written: what can't be read is refused, in one way.

msgspec raises `RecursionError` at what is nested more deeply than the stack allows, which is not
among the errors by which damage is known. A few thousand brackets are all that takes, so nothing
else in FastLoop decodes by itself (`tests/test_layers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, overload

import msgspec

T = TypeVar("T")
Data = bytes | bytearray | memoryview | str

MOST_LEVELS = 100  # of plain values, which others walk through; honest ones have ten


class _Decoder(Generic[T]):
    """Reads values of one ``kind`` again and again; plain ones of any where it is `Any`."""

    _made: ClassVar[type[Any]]

    @overload
    def __init__(self, kind: type[T]) -> None: ...
    @overload
    def __init__(self, kind: Any) -> None: ...
    def __init__(self, kind: Any) -> None:
        self._decode: Callable[[Any], T] = self._made(kind).decode
        self._plain = kind is Any

    def decode(self, data: Data) -> T:
        """What ``data`` says.

        Raises:
            msgspec.DecodeError: It says nothing, nothing of this kind, or is nested too deeply.
        """
        try:
            value = self._decode(data)
        except RecursionError as error:
            raise msgspec.DecodeError("it is nested too deeply") from error
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from error
        if self._plain:
            check_levels(value)
        return value


class JsonDecoder(_Decoder[T]):
    """Reads JSON."""

    _made = msgspec.json.Decoder


class MsgpackDecoder(_Decoder[T]):
    """Reads MessagePack."""

    _made = msgspec.msgpack.Decoder


@overload
def from_json(data: Data, kind: type[T]) -> T: ...
@overload
def from_json(data: Data, kind: Any = ...) -> Any: ...
def from_json(data: Data, kind: Any = Any) -> Any:
    """What JSON says; see `JsonDecoder`."""
    return JsonDecoder(kind).decode(data)


@overload
def from_msgpack(data: Data, kind: type[T]) -> T: ...
@overload
def from_msgpack(data: Data, kind: Any = ...) -> Any: ...
def from_msgpack(data: Data, kind: Any = Any) -> Any:
    """What MessagePack says; see `MsgpackDecoder`."""
    return MsgpackDecoder(kind).decode(data)


def check_levels(value: object) -> None:
    """Check that plain values can be walked through by a function that calls itself.

    Raises:
        msgspec.DecodeError: They are nested in `MOST_LEVELS` others or more.
    """
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, dict | list | tuple)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise msgspec.DecodeError(f"it is nested in more than {MOST_LEVELS} levels")
