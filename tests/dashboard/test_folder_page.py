"""The page of a folder of runs, as its server answers for it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from fast_core.dashboard.files import RunOnFile
from fast_core.dashboard.folder_api import MOST_CURVES, FolderApi
from fast_core.dashboard.folder_page import IDLE_S, MOST_OPEN, FolderPage
from fast_core.dashboard.overview import Overview
from fast_core.dashboard.security import Access, Guard
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served
from tests.dashboard.asking import Answer, Link, ask
from tests.tools.made_runs import made_run


class FakeRun:
    """The page of a run that only says which one it is."""

    def __init__(self, path: Path, opened: list[str], closed: list[str]) -> None:
        self.path, self.closed, self.fails = path, closed, False
        opened.append(path.name)

    def routes(self) -> list[BaseRoute]:
        async def talk(link: WebSocket) -> None:
            await link.accept()
            await link.send_text(self.path.name)
            await link.receive()

        async def index(request: object) -> PlainTextResponse:
            return PlainTextResponse(self.path.name)

        return [Route("/", index), WebSocketRoute("/ws", talk)]

    async def run(self) -> None:
        while not self.fails:
            await asyncio.sleep(0.01)
        raise RuntimeError("rubbish in its files")

    def refused(self, text: str) -> None: ...

    def end(self, text: object) -> None: ...

    def close(self) -> None:
        self.closed.append(self.path.name)


class Page:
    """A folder's page, and the pages of runs that it has opened and closed."""

    def __init__(self, folder: Path) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.pages: list[FakeRun] = []
        self.warned: list[str] = []
        self.page = FolderPage(folder, self.warned.append, self._open)
        starlette = Starlette(routes=self.page.routes())
        self.app = Guard(starlette, Access("127.0.0.1", 1), self.page.refused)

    def _open(self, path: Path, warn: object) -> FakeRun:
        self.pages.append(run := FakeRun(path, self.opened, self.closed))
        return run

    async def get(self, address: str, **headers: str) -> Answer:
        return await ask(self.app, address, **headers)

    async def runs(self) -> dict[str, str]:
        """Ids by the names of the directories."""
        found = (await self.get("/api/runs")).json["runs"]
        return {row["name"].rpartition("/")[2]: row["id"] for row in found}


def served(scenario: Callable[[Path], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that is a coroutine."""

    def test(tmp_path: Path) -> None:
        asyncio.run(scenario(tmp_path))  # type: ignore[arg-type]

    return test


@served
async def test_page_is_told_what_there_is_and_then_what_is_new(folder: Path) -> None:
    made_run(folder, values=[1.0, 2.0])
    page = Page(folder)
    assert "overview.js" in (await page.get("/")).text
    assert (await page.get("/assets/overview.js")).status == 200
    whole = (await page.get("/api/runs")).json
    assert whole["whole"] and [row["best"] for row in whole["runs"]] == [2.0]
    assert abs(whole["now_s"] - time.time()) < 600
    again = (await page.get(f"/api/runs?since={whole['mark']}")).json
    assert (again["whole"], again["runs"], again["groups"]) == (False, [], None)
    (group,), (run,) = whole["groups"], whole["runs"]
    asked = f"/api/curves?id={group['id']}&id={run['id']}&id=none"
    curves = (await page.get(asked)).json
    assert curves[group["id"]]["evaluation"]["mean"] == [1.0, 2.0]
    assert curves[run["id"]]["training"]["env_steps"] == []
    assert curves["none"]["evaluation"]["runs"] == 0
    assert curves[run["id"]]["metrics"] == ["eval/quarantined_share", "eval/return_mean"]
    assert "chosen" not in curves["none"] and curves["none"]["metrics"] == []
    curves = (await page.get(f"{asked}&metric=eval/quarantined_share")).json
    assert curves[group["id"]]["chosen"]["mean"] == [0.0, 0.0]
    assert curves[run["id"]]["evaluation"]["mean"] == [1.0, 2.0]
    assert (await page.get(f"{asked}&metric=no/such")).json[run["id"]]["chosen"]["runs"] == 0
    for many in ("&".join(["id=x"] * (MOST_CURVES + 1)), f"metric={'x' * 1000}"):
        assert (await page.get(f"/api/curves?{many}")).status == 400


def test_folder_is_looked_at_only_as_often_as_its_size_allows(tmp_path: Path) -> None:
    now_s = [0.0]
    looks: list[float] = []

    class Slow(Overview):
        def look(self) -> None:
            looks.append(now_s[0])
            now_s[0] += 0.2

    api = FolderApi(Slow(tmp_path), clock=lambda: now_s[0])
    for half in range(40):
        now_s[0] = max(now_s[0], half / 2)
        api.news("")
    assert looks == [0.0, 4.5, 9.0, 13.5, 18.0]  # 0.2 s each, 5 % of the time


@served
async def test_what_is_no_run_and_no_file_is_not_found(folder: Path) -> None:
    made_run(folder)
    page = Page(folder)
    escapes = ["/run/..%2f..%2fetc/", "/run/../api/none", "/assets/..%2fserver.py", "/assets/../x"]
    for path in ["/run/none/", "/run/", *escapes]:
        assert (await page.get(path)).status == 404, path
    async with Link(page.app, "/run/none/ws") as link:
        assert (await link.said())["type"] == "websocket.close"
    assert page.opened == []


@served
async def test_strangers_are_refused_for_runs_too(folder: Path) -> None:
    made_run(folder)
    page = Page(folder)
    (run,) = (await page.runs()).values()
    for path in ("/", "/api/runs", f"/run/{run}/"):
        assert (await page.get(path, host="evil.example")).status == 421
    async with Link(page.app, f"/run/{run}/ws", origin="http://evil.example") as link:
        assert (await link.said())["type"] == "websocket.close"
    assert page.opened == [] and len(page.warned) == 2


@served
async def test_page_of_a_run_is_open_while_somebody_looks(folder: Path) -> None:
    name = made_run(folder).name
    page = Page(folder)
    run = (await page.runs())[name]
    assert page.opened == []
    moved = await page.get(f"/run/{run}")
    assert moved.headers["location"].endswith(f"/run/{run}/")
    later_s = time.monotonic() + 2 * IDLE_S
    async with Link(page.app, f"/run/{run}/ws") as link:
        assert (await link.said())["type"] == "websocket.accept"
        assert (await link.said())["text"] == name
        await page.page.tidy(later_s)
        assert page.closed == []
    await page.page.tidy(time.monotonic())
    assert (page.opened, page.closed) == ([name], [])
    await page.page.tidy(later_s)
    assert page.closed == [name]


@served
async def test_address_of_a_run_that_was_kept_is_known_to_a_server_that_has_just_begun(
    folder: Path,
) -> None:
    name = made_run(folder).name
    run = (await Page(folder).runs())[name]
    assert (await Page(folder).get(f"/run/{run}/")).text == name


@served
async def test_page_of_a_run_that_is_gone_or_fails_is_closed_alone(folder: Path) -> None:
    paths = [made_run(folder, f"seed={seed}") for seed in range(2)]
    page = Page(folder)
    runs = await page.runs()
    gone, failing = (f"/run/{runs[path.name]}/" for path in paths)
    for address in (gone, failing):
        await page.get(address)
    shutil.rmtree(paths[0])
    page.page.api.overview.look()
    page.pages[1].fails = True
    await asyncio.sleep(0.05)
    await page.page.tidy(time.monotonic())
    assert sorted(page.closed) == sorted(path.name for path in paths)
    assert any("rubbish in its files" in text for text in page.warned)
    assert (await page.get(gone)).status == 404
    assert (await page.get(failing)).text == paths[1].name


@served
async def test_pages_of_few_runs_are_open_at_once(folder: Path) -> None:
    for seed in range(MOST_OPEN + 2):
        made_run(folder, f"seed={seed}")
    page = Page(folder)
    for run in (await page.runs()).values():
        await page.get(f"/run/{run}/")
    assert page.closed == page.opened[:2]


def test_page_of_a_run_that_serves_its_own_says_where_its_frames_are(tmp_path: Path) -> None:
    run = RunDirectory(made_run(tmp_path, outcome=None))
    lock = run.lock()
    source = RunOnFile(run)
    assert "--dashboard" in source.hello().why_no_frames
    Served("http://127.0.0.1:8420/", 8420, 1).write(run.dashboard)
    assert "serves: http://127.0.0.1:8420/" in source.hello().why_no_frames
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    Served("http://127.0.0.1:8420/", 8420, gone.pid).write(run.dashboard)
    told = source.hello().why_no_frames
    assert "own page has died" in told and "--dashboard" in told and "8420" not in told
    source.close()
    lock.close()
