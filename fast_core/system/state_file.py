"""What a `state_dict` is on disk, a learner's mostly: MessagePack, read without running code.

Not torch's own format: a learner need not use torch at all, and then saving must not import it
(1.5 s in the middle of training). Arrays and tensors keep dtype, shape and every bit.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
import numpy as np

from fast_core.errors import CheckpointError
from fast_core.system.decoding import from_msgpack
from fast_core.system.durable import write_durably
from fast_core.system.regular_file import read_large

# What learners and NumPy raise at a state that nobody wrote with `save`.
MADE_UP = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_ARRAY, _TENSOR = "__array__", "__tensor__"


def save(path: Path, state: dict[str, object]) -> None:
    """Write ``state`` whole and flushed to disk.

    Raises:
        TypeError: As `check`.
    """
    write_durably(path, pack(state))


def pack(state: dict[str, object]) -> bytes:
    """What `save` writes.

    Raises:
        TypeError: As `check`.
    """
    return msgspec.msgpack.encode(_to_plain(state, ""))


def check(state: dict[str, object]) -> None:
    """Check that `save` can write ``state``, before there is anything to lose.

    Raises:
        TypeError: A value is neither tensor, array, number, string nor a list or dict of those;
            says where it stands.
    """
    _to_plain(state, "")


def load(path: Path) -> dict[str, object]:
    """Read what `save` wrote; tensors come back on the CPU.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    try:
        data = read_large(path)
    except OSError as error:
        raise CheckpointError(f"can't read the learner's state in {path}: {error}") from error
    return unpack(data, str(path))


def unpack(data: bytes, path: str) -> dict[str, object]:
    """What `pack` made ``data`` of; ``path`` says where it is from.

    Raises:
        CheckpointError: It is damaged.
    """
    try:
        state = _from_plain(from_msgpack(data))
    except (RuntimeError, SyntaxError, *MADE_UP) as error:
        raise CheckpointError(f"can't read the learner's state in {path}: {error}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not a learner's state")
    return state


def as_array(value: object) -> np.ndarray | None:
    """NumPy form of an array or a tensor (raw bytes as uint8 for dtypes NumPy lacks)."""
    if isinstance(value, np.ndarray):
        return value
    if is_tensor(value):
        tensor = value.detach().cpu().contiguous()  # type: ignore[attr-defined]
        torch = importlib.import_module("torch")
        return np.asarray(tensor.reshape(-1).view(torch.uint8).numpy())
    return None


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a torch tensor, told without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _to_plain(value: object, where: str) -> object:
    """``value`` as MessagePack has it; ``where`` it stands in the whole, for errors."""
    if is_tensor(value):
        kind = str(value.dtype).removeprefix("torch.")  # type: ignore[attr-defined]
        shape = list(value.shape)  # type: ignore[attr-defined]
        data = as_array(value)
        assert data is not None
        return {_TENSOR: [kind, shape, data.tobytes()]}
    if isinstance(value, np.ndarray) and not (value.dtype.hasobject or value.dtype.names):
        return {_ARRAY: [value.dtype.str, list(value.shape), value.tobytes()]}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, (str, int)):
                raise TypeError(f"{_in(where)}has the key {key!r}; keys must be text or integers")
        return {key: _to_plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, np.generic):
        return _to_plain(np.asarray(value), where)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return {"__int__": str(value)}
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    raise TypeError(
        f"{_in(where)}is a {type(value).__name__}, which a checkpoint can't hold; it must be a "
        f"tensor, a plain array, a number, text, or a list or dict of those; got {value!r}"
    )


def _in(where: str) -> str:
    return f"state_dict(){where} "


def _from_plain(value: object) -> object:
    if isinstance(value, dict):
        if _ARRAY in value:
            kind, shape, data = value[_ARRAY]
            return np.frombuffer(data, np.dtype(kind)).reshape(shape).copy()
        if _TENSOR in value:
            return _tensor(*value[_TENSOR])
        if "__int__" in value:
            return int(value["__int__"])
        return {key: _from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    return value


def _tensor(kind: str, shape: list[int], data: bytes) -> object:
    torch = importlib.import_module("torch")
    raw = torch.frombuffer(bytearray(memoryview(data)), dtype=torch.uint8)
    return raw.view(getattr(torch, kind)).reshape(shape)
