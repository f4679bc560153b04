"""What a learner's file holds is made again, or refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.errors import CheckpointError
from fast_core.system.state_file import load, save


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    state = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [1, {"c": "x"}], "d": 1 << 80}
    save(tmp_path / "x", state)
    found = load(tmp_path / "x")
    np.testing.assert_array_equal(found.pop("a"), state.pop("a"))
    assert found == state


@pytest.mark.parametrize("tag", ["__array__", "__tensor__"])
@pytest.mark.parametrize(
    "made_up",
    [
        *(["O", [1], b"12345678"], ["f4", [2], b"1234"], [[["a", "O"]], [1], b"12345678"]),
        *(["{", [1], b"1"], ["f4", ["a"], b"1234"], [1, 2], "x", ["load", [1], b"1"]),
        *(["float32", [1], 10**11], ["float32", [7], b"1234"], ["float32", [1], b"123"]),
    ],
)
def test_what_nobody_saved_is_damage(tmp_path: Path, tag: str, made_up: object) -> None:
    (tmp_path / "x").write_bytes(msgspec.msgpack.encode({"a": {tag: made_up}}))
    with pytest.raises(CheckpointError, match="can't read the learner's state"):
        load(tmp_path / "x")
