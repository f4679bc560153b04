"""The report of a run in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fast_core.monitor.report import write_report
from fast_core.monitor.run_directory import RunDirectory
from tests.dashboard.browser import check_look
from tests.tools.made_runs import made_run


@pytest.mark.parametrize(
    ("outcome", "look"),
    [
        ("failed", (390, "dark")),
        pytest.param("failed", (1280, "light"), marks=pytest.mark.slow),
        pytest.param("finished", (390, "light"), marks=pytest.mark.slow),
        pytest.param(None, (1280, "dark"), marks=pytest.mark.slow),
    ],
)
def test_report_is_accessible_and_fits(
    tmp_path: Path, browser: Any, outcome: str | None, look: tuple[int, str]
) -> None:
    crash = "Traceback " + "x" * 400
    run = RunDirectory(made_run(tmp_path, values=[1.0, 2.0], outcome=outcome, crash=crash))
    run.versions.write_text('{"commit": "1"}')
    viewport = {"width": look[0], "height": 800}
    with browser.new_page(viewport=viewport, color_scheme=look[1]) as page:
        page.goto(write_report(run).as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        check_look(page, look[0], f"the report of {outcome}, {look}")
