"""SHA-256 of a learner's whole state: equal exactly when every bit is."""

from __future__ import annotations

import hashlib

import numpy as np

from fast_core.system.state_file import as_array


def digest(state: object) -> str:
    """Hash tensors, arrays, numbers, strings, and lists and dicts of those."""
    sha = hashlib.sha256()
    _feed(sha, state)
    return sha.hexdigest()


def _feed(sha: hashlib._Hash, value: object) -> None:
    array = as_array(value)
    if array is not None:
        sha.update(f"{getattr(value, 'dtype', '')}{tuple(getattr(value, 'shape', ()))}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    elif isinstance(value, dict):
        for key, item in value.items():
            sha.update(f"{key!r}:".encode())
            _feed(sha, item)
    elif isinstance(value, (list, tuple)):
        sha.update(f"[{len(value)}]".encode())
        for item in value:
            _feed(sha, item)
    elif value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        sha.update(f"{type(value).__name__}{value!r}".encode())
    else:
        raise TypeError(f"can't hash a {type(value).__name__} in a learner's state: {value!r}")
