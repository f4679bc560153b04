"""Files that are edited while a run starts."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.launcher.failures.sources import Sources


def test_untouched_files_are_no_news() -> None:
    assert Sources().changed() == []


@pytest.mark.parametrize("how", ["edited", "deleted"])
def test_edited_module_of_the_users_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "edited_module.py"
    path.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "edited_module", raising=False)
    importlib.import_module("edited_module")
    sources = Sources()
    if how == "edited":
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    else:
        path.unlink()
    assert sources.changed() == [str(path)]


def test_files_of_fastloop_are_watched_imported_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fast_core.launcher.failures.sources.sys", SimpleNamespace(modules={}))
    names = {Path(name).name for name in Sources()._before}
    assert {"forks.py", "dqn.py", "batch_slots.py"} <= names
    assert len(names) > 100
