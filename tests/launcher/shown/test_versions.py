from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import numpy
import pytest

from fast_core.launcher.shown import versions as module
from fast_core.launcher.shown.versions import write_versions
from fast_core.monitor.run_directory import RunDirectory


def test_each_part_of_a_run_adds_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory.create(tmp_path, "cart", datetime(2025, 1, 1))
    for day in (1, 2):
        write_versions(run, datetime(2025, 1, day))
    (first,) = json.loads(run.versions.read_text())
    assert first["since"] == "2025-01-01T00:00:00"
    assert first["numpy"] == numpy.__version__
    assert {"fastloop", "python", "torch", "gymnasium", "cpu"} <= first.keys()
    assert first["modules_in"].split(os.pathsep)[0] == os.getcwd()
    monkeypatch.setattr(module, "began_in", lambda: ["/a", "/b"])
    monkeypatch.setattr(module, "versions", lambda: {"fastloop": "9"})
    write_versions(run, datetime(2025, 1, 3))
    assert json.loads(run.versions.read_text())[1:] == [
        {"since": "2025-01-03T00:00:00", "fastloop": "9", "modules_in": "/a:/b"}
    ]


@pytest.mark.parametrize("text", ["[{", '{"fastloop": "1"}', "[1]"])
def test_damaged_file_of_versions_is_begun_anew(tmp_path: Path, text: str) -> None:
    run = RunDirectory.create(tmp_path, "cart", datetime(2025, 1, 1))
    run.versions.write_text(text)
    write_versions(run, datetime(2025, 1, 1))
    assert len(json.loads(run.versions.read_text())) == 1
