"""Every kind of structure keeps what `fast_core.testing` asks of kinds of a user's own."""

from __future__ import annotations

import pytest

from fast_core.testing import check_memory_kind
from tests.memory.kinds import CASES


@pytest.mark.parametrize("name", CASES)
def test_kind_keeps_its_contract(name: str) -> None:
    case = CASES[name]
    check_memory_kind(case.kind, case.shape, case.write, case.read, keeps=case.keeps)
