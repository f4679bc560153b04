"""A real browser for tests of the page: Debian's Chromium, where there is one."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_CHROMIUM = "no Chromium on this machine (Debian: apt-get install chromium)"
ELSEWHERE = "page.invalid"  # a name that the browser takes for this machine
ARGUMENTS = [
    f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONGEST_S = 40.0


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A running browser, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def _no_charts(route: Any) -> None:
    script = "window.Plotly = { react() {}, purge() {} };"
    route.fulfill(content_type="text/javascript", body=script)


class Visit:
    """One page in a context of its own, as a first visitor has it.

    Attributes:
        page: Playwright's page.
        said: What the browser's console and the page's errors said.
    """

    def __init__(
        self,
        browser: Any,
        url: str,
        *,
        width: int = 1280,
        height: int = 0,
        theme: str = "dark",
        locale: str = "en-US",
        charts: bool = True,
    ) -> None:
        """``charts``: with the script that draws them, which takes a second to load."""
        viewport = {"width": width, "height": height or (844 if width < 600 else 800)}
        self.context = browser.new_context(viewport=viewport, color_scheme=theme, locale=locale)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * LONGEST_S)
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        if not charts:
            self.page.route("**/plotly.js", _no_charts)
        self.go(url)

    def go(self, url: str) -> None:
        """Open an address; one with a token is left for the page at once."""
        self.page.goto(url)
        self.page.wait_for_url(lambda at: "?token=" not in at)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def drawn(self) -> list[int]:
        """How many pictures each tile of the grid has shown."""
        script = "all => all.map(each => Number(each.dataset.drawn ?? 0))"
        found: list[int] = self.page.locator("#grid canvas").evaluate_all(script)
        return found

    def pixels(self) -> list[str]:
        """What each tile of the grid shows, in full."""
        found: list[str] = self.page.locator("#grid canvas").evaluate_all(
            "all => all.map(each => each.width ? each.toDataURL() : '')"
        )
        return found

    def ages_ms(self) -> list[int]:
        """How old the last picture of each tile was when it was drawn, ms."""
        script = "all => all.map(each => Number(each.dataset.age))"
        found: list[int] = self.page.locator("#grid canvas[data-age]").evaluate_all(script)
        return found

    def shift(self) -> float:
        """How much has moved of itself until now, as browsers add it up; under 0.1 is good."""
        moved: float = self.page.evaluate(
            """() => new Promise(done => {
                let sum = 0;
                const add = entry => sum += entry.hadRecentInput ? 0 : entry.value;
                const watch = new PerformanceObserver(list => list.getEntries().forEach(add));
                watch.observe({type: "layout-shift", buffered: true});
                setTimeout(() => done(sum), 100);
            })"""
        )
        return moved

    def points(self) -> dict[str, list[int]]:
        """Points of each line of each chart that is drawn."""
        found: dict[str, list[int]] = self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("[data-chart]")]
                .map(box => [box.dataset.chart, box.querySelector(".plot").data])
                .filter(([, data]) => data)
                .map(([name, data]) => [name, data.map(line => line.x.length)]))"""
        )
        return found

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something, at most `LONGEST_S`."""
        until = time.monotonic() + LONGEST_S
        while not holds():
            assert time.monotonic() < until, f"{what}: never; the console: {self.said}"
            self.page.wait_for_timeout(50)

    def close(self) -> None:
        self.context.close()


def check_look(page: Any, width: int, what: str) -> None:
    """See whether what is shown can be used by everybody, and is not too wide."""
    from axe_playwright_python.sync_playwright import Axe

    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    found = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert found.violations_count == 0, f"{what}: {found.generate_report()}"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, what
