"""Bytes of headers changed at random: attaching refuses or works, and never crashes."""

from __future__ import annotations

import contextlib
import importlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.errors import SegmentError
from fast_core.memory import Segment
from tests.memory.kinds import CASES, Case

CHANGES = st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), min_size=1, max_size=12)
WORDS = st.lists(
    st.tuples(
        st.integers(0, 63),
        st.sampled_from([0, 1, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63, 2**64 - 1]),
    ),
    max_size=3,
)


def use(case: Case, memory: memoryview) -> None:
    attached = case.kind.attach(memory, *case.shape)
    attached.published()
    if case.read is not None and case.write is not None:
        case.read(attached)
        case.write(attached, 5)


@pytest.mark.parametrize("structure", CASES)
@given(changes=CHANGES, words=WORDS)
@settings(max_examples=50, deadline=None, database=None)
def test_damaged_bytes_are_refused_or_harmless(
    structure: str, changes: list[tuple[int, int]], words: list[tuple[int, int]]
) -> None:
    case = CASES[structure]
    with Segment.create(4096, backing="memfd") as segment:
        case.kind.create(segment.buffer, *case.shape)
        for word, value in words:
            segment.buffer[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")
        for offset, value in changes:
            segment.buffer[offset] = value
        with contextlib.suppress(SegmentError):
            use(case, segment.buffer)


@pytest.mark.parametrize("structure", CASES)
@pytest.mark.parametrize("word", [0, 1])
def test_damaged_magic_or_version_is_refused(structure: str, word: int) -> None:
    case = CASES[structure]
    with Segment.create(4096, backing="memfd") as segment:
        case.kind.create(segment.buffer, *case.shape)
        segment.buffer[word * 8] ^= 0x40
        with pytest.raises(SegmentError):
            use(case, segment.buffer)


def test_import_without_the_compiled_core_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("fast_core.memory")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fast_core.memory._native", None)
    with pytest.raises(ImportError, match=r"python setup.py build_ext --inplace"):
        importlib.import_module("fast_core.memory")
