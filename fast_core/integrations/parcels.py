"""Python objects as a small pickle, and beside it the memory of the arrays and tensors in them.

Whatever hands out its memory by pickle protocol 5 does so here: NumPy arrays, and what is made of
them, in any object; but those that are not contiguous, which the pickle takes up. PyTorch
pickles a storage at a time into a file of its own; `fast_core.integrations.tensors` replaces that.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np

LEAST = 1 << 12  # bytes of an array below which the pickle takes it up


def pack(value: object, *, plain: bool = False) -> list[memoryview]:
    """Pickle a value, by `cloudpickle`, which takes classes and functions of a script with it.

    Args:
        value: Any object.
        plain: Only what pickle itself can, many times quicker for small objects.

    Returns:
        The pickle, and the memory it refers to, which is the value's own: it has to be copied
        before the value changes.
    """
    buffers: list[memoryview] = []

    def apart(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LEAST:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    # A user may have registered reducers meanwhile, or imported torch.
    pickler = _pickler(plain, "torch" in sys.modules, len(copyreg.dispatch_table))
    pickler(file, protocol=5, buffer_callback=apart).dump(value)
    return [file.getbuffer(), *buffers]


def unpack(parts: Sequence[memoryview]) -> Any:
    """Make the value anew; every array has memory of its own, and the parts may change."""
    return pickle.loads(parts[0], buffers=[_own(part) for part in parts[1:]])


def _own(memory: memoryview) -> np.ndarray:
    """A copy; made by NumPy, which lets other threads go on meanwhile."""
    return np.frombuffer(memory, np.uint8).copy()


@functools.cache
def _pickler(plain: bool, tensors: bool, registered: int) -> Any:
    """A pickler with our reducers; what a user has registered counts more."""
    reducers: dict[type, Callable[[Any], Any]] = {}
    if tensors:
        from fast_core.integrations.tensors import REDUCERS

        reducers |= REDUCERS
    base: Any = pickle.Pickler if plain else cloudpickle.Pickler
    theirs = {**(copyreg.dispatch_table if plain else cloudpickle.Pickler.dispatch_table)}
    if not plain:
        theirs[types.CodeType] = _reduce_code
    return type("Pickler", (base,), {"dispatch_table": reducers | theirs})


def _reduce_code(code: types.CodeType) -> Any:
    """As `cloudpickle`, but with the name of its file, which tracebacks show lines of."""
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _named_code, (make, arguments, code.co_filename)


def _named_code(
    make: Callable[..., types.CodeType], arguments: tuple[Any, ...], file: str
) -> types.CodeType:
    return make(*arguments).replace(co_filename=file)
