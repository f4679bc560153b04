"""The page of a folder of runs in a real browser, by the server that `fastloop watch` has."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fast_core.dashboard.folder_page import FolderPage
from fast_core.dashboard.server import PageServer
from fast_core.dashboard.serving import listen
from fast_core.monitor.run_directory import RunDirectory
from tests.dashboard.browser import Visit
from tests.dashboard.conftest import Visiting
from tests.tools.made_runs import made_run

pytestmark = pytest.mark.slow

SLOW = "algorithm.learning_rate=1e-5"
LOOKS = [(1280, "dark", "en-US"), (390, "light", "zh-CN")]


@contextlib.contextmanager
def served(folder: Path, port: int = 0) -> Iterator[PageServer]:
    warned: list[str] = []
    listening = listen("127.0.0.1", port)
    server = PageServer(FolderPage(folder, warned.append), listening, "127.0.0.1", token="")
    try:
        yield server
    finally:
        server.close()
    assert warned == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(3):
        made_run(tmp_path, f"seed={seed}", values=[1.0 + seed, 5.0, 9.0][: 3 - (seed == 2)])
    made_run(tmp_path, SLOW, "name=<b>slow", values=[1.0, 2.0])
    (tmp_path / "sweep.yaml").write_text("seeds: 4\ngrid: {algorithm.learning_rate: [1, 2]}\n")
    return tmp_path


def test_nothing_moves_while_the_page_loads(folder: Path, visit: Visiting) -> None:
    with served(folder) as server:
        page = visit(server.url)
        page.until(lambda: lines(page).get("evaluation"), "curves")
        assert page.shift() < 0.02


def cells(visit: Visit, table: str, column: int) -> list[str]:
    rows = visit.page.locator(f"#{table} tbody tr > :nth-child({column})")
    return [text.splitlines()[0] if text else "" for text in rows.all_inner_texts()]


def lines(visit: Visit) -> dict[str, list[list[float]]]:
    """The y of each line of each chart."""
    found: dict[str, list[list[float]]] = visit.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-metric]")]
            .map(box => [box.dataset.metric, box.querySelector(".plot").data ?? []])
            .map(([name, data]) => [name, data.map(line => [...line.y])]))"""
    )
    return found


def append(run: RunDirectory, env_steps: int, value: float) -> None:
    row = {"env_steps": env_steps, "updates": 9, "time_s": 9.0}
    with run.metrics.open("a") as file:
        file.write(json.dumps({**row, "values": {"eval/return_mean": value}}) + "\n")


def test_runs_are_told_drawn_and_followed(folder: Path, visit: Visiting) -> None:
    with served(folder) as server:
        page = visit(server.url, charts=True)
        page.until(lambda: len(cells(page, "runs", 2)) == 4, "the runs")
        assert cells(page, "groups", 2) == ["<b>slow", "made"]
        assert cells(page, "groups", 5) == ["1", "3"]
        assert "4 of 8 finished" in page.text("#sweep-list")
        # One run alone, then the mean of three: dotted where one has no value, in a band.
        page.until(lambda: len(lines(page).get("evaluation", [])) == 5, "the curves")
        low, high, alone, dotted, whole = lines(page)["evaluation"]
        assert (low, high) == ([1.0, 5.0, 9.0], [3.0, 5.0, 9.0])
        assert (alone, dotted, whole) == ([1.0, 2.0], [None, 5.0, 9.0], [2.0, 5.0, None])
        page.page.locator("[data-spread=std]").click()
        page.until(lambda: lines(page)["evaluation"][1][1] == 5.0, "the other band")
        page.page.locator("[data-spread=range]").click()

        new = RunDirectory(made_run(folder, "seed=3", values=[4.0], outcome=None))
        lock = new.lock()
        page.until(lambda: len(cells(page, "runs", 2)) == 5, "a new run")
        assert "1 new runs" in page.text("#spoken")
        append(new, 150, 80.0)
        page.until(lambda: "80.0" in cells(page, "runs", 8), "its best evaluation")
        page.until(lambda: 80.0 in lines(page)["evaluation"][1], "its curve")
        lock.close()
        page.until(lambda: "interrupted" in cells(page, "runs", 3), "its end")
        assert page.said == []
    page.until(lambda: page.page.locator("#connection[data-state=lost]").count(), "the loss")
    made_run(folder, "seed=9")
    with served(folder, server.port):
        page.until(lambda: len(cells(page, "runs", 2)) == 6, "the way back")
        assert page.text("#connection") == "live"


def test_any_metric_is_drawn_beside_the_returns_and_kept_in_the_address(
    folder: Path, visit: Visiting
) -> None:
    with served(folder) as server:
        page = visit(server.url)
        page.until(lambda: lines(page).get("evaluation"), "the curves")
        assert page.page.locator("[data-metric=chosen]").is_hidden()
        for _ in range(2):
            page.until(lambda: page.page.locator("#metric option").count() == 3, "the metrics")
            page.page.locator("#metric").select_option("eval/quarantined_share")
            page.until(lambda: lines(page)["chosen"], "the metric's curve")
            assert page.text("[data-metric=chosen] h3") == "CartPole-v1: eval/quarantined_share"
            page.page.reload()
        page.until(lambda: lines(page).get("chosen"), "the metric, after a reload")
        page.page.locator("#metric").select_option("")
        page.page.locator("[data-metric=chosen]").wait_for(state="hidden")
        assert page.said == []


def test_everything_is_reached_by_keyboard_and_kept_in_the_address(
    folder: Path, visit: Visiting
) -> None:
    with served(folder) as server:
        page = visit(server.url)
        page.until(lambda: len(cells(page, "runs", 2)) == 4, "the runs")
        keys = page.page.keyboard
        keys.press("/")
        keys.type("slow")
        page.until(lambda: len(cells(page, "runs", 2)) == 1, "the runs that match")
        assert cells(page, "groups", 2) == ["<b>slow"]
        assert page.text("#matching") == "1 of 4"
        keys.press("Escape")
        page.page.locator("#runs th button", has_text="best").press("Enter")
        assert cells(page, "runs", 8) == ["9.00", "9.00", "5.00", "2.00"]
        page.page.locator("#groups tbody input").first.press("Space")
        page.page.locator("#runs tbody input").first.press("Space")
        page.page.reload()
        page.until(lambda: cells(page, "runs", 8) == ["9.00", "9.00", "5.00", "2.00"], "the order")
        drawn = page.page.locator("tbody input:checked")
        page.until(lambda: drawn.count() == 2, "what was drawn")
        legend = page.page.locator("#curve-legend li")
        page.until(lambda: legend.count() == 2, "its legend")
        page.page.locator(".run-link").first.press("Enter")
        page.until(lambda: "as told" in page.text("#banner"), "the page of a run")
        page.page.get_by_role("link", name="All runs").press("Enter")
        page.until(lambda: len(cells(page, "runs", 2)) == 4, "the runs again")
        assert page.said == []


@pytest.mark.parametrize(("width", "theme", "locale"), LOOKS)
def test_page_is_accessible_and_fits(
    folder: Path, visit: Visiting, width: int, theme: str, locale: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    made_run(folder, "name=" + "long" * 20, outcome="failed", crash="x\nValueError: " + "why" * 60)
    with served(folder) as server:
        page = visit(server.url, width=width, theme=theme, locale=locale)
        page.until(lambda: page.page.locator("#curve-legend li").count() == 2, "the curves")
        rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
        found = Axe().run(page.page, options=rules)
        assert found.violations_count == 0, found.generate_report()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.text("h1") == ("Runs" if locale == "en-US" else "运行")
        assert page.said == []
