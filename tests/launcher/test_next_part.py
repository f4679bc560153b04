"""What a part of a run leaves that ended before it began."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fast_core.launcher.next_part import lost_early
from fast_core.launcher.processes.beginning import LostEarly
from fast_core.launcher.session import Session
from fast_core.node import Role
from tests.run.test_own_parts import READER, config_with, said

MINE = "optimizer-watch-1"


@pytest.mark.parametrize(("node", "kind"), [("optimizer-0", "optimizer"), (MINE, MINE)])
def test_death_counts_for_the_kind_of_its_role_whatever_its_name(
    tmp_path: Path, node: str, kind: str
) -> None:
    run: Any = SimpleNamespace(path=tmp_path)
    unused: Any = None
    session = Session(config_with(said(Role(MINE, READER, deaths=1))), run, None, unused, unused)
    lost = lost_early(session, LostEarly(node, f"{node} is gone"))
    assert (lost.kind, lost.deaths) == (kind, {} if kind == "optimizer" else {MINE: 1})
