"""The page in a real browser, against a server that only speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.dashboard.browser import Visit, check_look
from tests.dashboard.conftest import Visiting
from tests.dashboard.served import Pretend, served
from tests.dashboard.stub import Run, Stub

slow = pytest.mark.slow
MAZE = "\n\x1b[41mS\x1b(B\x1b[mFFF\n\x1b[34;1mFH\x1b[0mFH\x1b]0;title\x07\nFFFH\nHFF\x08G\n"
LOOKS = [(1280, "dark"), (390, "light")]


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def stub(run: Run) -> Iterator[Stub]:
    with Stub(run) as server:
        yield server


def live(visit: Visiting, stub: Stub, *, charts: bool = False, **options: Any) -> Visit:
    """A page whose screens are all there."""
    page = visit(stub.url, charts=charts, **options)
    page.until(lambda: page.drawn() and max(page.drawn()) >= 1, "a picture")
    return page


def last_watch(stub: Stub) -> dict[str, Any]:
    return next(said for _, said in reversed(stub.heard) if said["type"] == "watch")


def focused(page: Visit) -> str:
    """What has the keyboard: its id, or its label."""
    return str(
        page.page.evaluate("document.activeElement.id || document.activeElement.ariaLabel || ''")
    )


def test_tiles_move_and_charts_draw_without_a_word_in_the_console(
    stub: Stub, visit: Visiting
) -> None:
    page = visit(stub.url)
    page.until(lambda: len(page.drawn()) == 9 and min(page.drawn()[:8]) >= 1, "eight pictures")
    before = page.pixels()[:8]
    assert len(set(before)) == 8

    def changed() -> bool:
        return all(old != new for old, new in zip(before, page.pixels(), strict=False))

    page.until(changed, "eight other pictures")
    page.until(lambda: {"return", "evaluation"} <= page.points().keys(), "charts")
    lines = page.points()
    assert len(lines["return"]) == 4  # the last episode, and means of 10, 50, 100
    assert min(lines["return"]) > 100
    assert page.text("[data-tile='2'] .best-mark") == "★ best"
    assert "waiting for policy" in page.text("[data-tile='4'] .state")
    assert page.text("#degree") == "2"
    assert page.said == []


@pytest.mark.parametrize(
    ("tiles", "size", "columns"),
    [
        (8, (1366, 768), 4),
        pytest.param(8, (1920, 1080), 4, marks=slow),
        (9, (1280, 720), 4),
        pytest.param(9, (1920, 1080), 3, marks=slow),
        pytest.param(12, (1366, 768), 4, marks=slow),
        pytest.param(1, (1366, 768), 1, marks=slow),
        pytest.param(16, (1920, 1080), 4, marks=slow),
    ],
)
def test_every_tile_is_seen_and_nothing_moves_while_the_page_loads(
    visit: Visiting, tiles: int, size: tuple[int, int], columns: int
) -> None:
    run = Run(tiles=tiles, evaluation=False)
    run.notes = {1: "no picture: render() takes longer than 2 s; it is not called any more"}
    run.replay = True
    with Stub(run) as stub:
        page = visit(stub.url, width=size[0], height=size[1], charts=False)
        page.until(lambda: page.drawn() and min(page.drawn()) >= 1, "all pictures")
        if tiles == 8:
            page.page.locator("[data-tile='1'] .note").wait_for()  # which comes later
        boxes = page.page.locator("#grid > li").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect())"
            ".map(box => [box.x, box.bottom, box.width])"
        )
        assert page.shift() < 0.02
        assert len({x for x, _, _ in boxes}) == columns
        assert max(bottom for _, bottom, _ in boxes) <= size[1]
        assert min(width for _, _, width in boxes) >= 150


@slow
def test_every_promise_of_the_keyboard_is_kept(run: Run, stub: Stub, visit: Visiting) -> None:
    page = live(visit, stub)
    keys = page.page.keyboard
    keys.press("3")
    assert focused(page) == "Environment 3: enlarge"
    keys.press("ArrowRight")
    assert focused(page) == "Environment 4: enlarge"
    keys.press("ArrowDown")
    assert focused(page) == "Environment 7: enlarge"
    assert page.page.evaluate("document.activeElement.matches(':focus-visible')")
    keys.press("Space")
    assert page.text("#pause") == "Go on"
    assert page.page.locator("#large").is_hidden()  # the space bar has not pressed the tile, too
    keys.press("Space")
    keys.press("o")
    page.until(lambda: last_watch(stub)["mode"] == "obs", "observations")
    keys.press("Enter")
    assert page.text("#large-name") == "Environment 7"
    keys.press("ArrowLeft")
    assert page.text("#large-name") == "Environment 6"
    keys.press("Escape")
    assert focused(page) == "Environment 6: enlarge"
    keys.press("?")
    assert page.page.locator("#help").is_visible()
    page.page.locator("#keys-on").uncheck()
    keys.press("Escape")
    assert page.page.locator("#help").is_hidden()
    keys.press("Space")  # turned off: the tile's own
    assert page.page.locator("#large").is_visible()
    assert page.text("#pause") == "Pause"


@slow
def test_every_control_is_reached_by_tab(stub: Stub, visit: Visiting) -> None:
    page = live(visit, stub)
    controls = page.page.locator("button:visible, select:visible, a[href]:visible").evaluate_all(
        "all => all.filter(each => !each.disabled && each.tabIndex >= 0)"
        ".map(each => each.id || each.ariaLabel || each.textContent)"
    )
    reached = []
    for _ in range(len(controls) + 3):
        page.page.keyboard.press("Tab")
        script = (
            "(at => [at === document.body ? '' : at.id || at.ariaLabel || at.textContent,"
            " getComputedStyle(at).outlineStyle])(document.activeElement)"
        )
        name, outline = page.page.evaluate(script)
        reached.append(name)
        assert outline != "none" or name == "", f"{name!r} has no visible focus"
    assert set(controls) <= set(reached)
    assert "Environment 1: enlarge" in reached


@slow
def test_paused_and_hidden_pages_ask_for_no_picture(stub: Stub, visit: Visiting) -> None:
    page = live(visit, stub)
    page.page.locator("#pause").click()
    page.until(lambda: last_watch(stub)["tiles"] == [], "asking for nothing")
    page.page.wait_for_timeout(300)
    before = page.drawn()
    steps = page.text("#env-steps")
    page.page.wait_for_timeout(800)
    assert page.drawn() == before
    assert page.text("#env-steps") != steps  # the figures go on
    page.page.locator("#pause").click()
    page.until(lambda: last_watch(stub)["tiles"], "asking again")
    page.page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.until(lambda: last_watch(stub)["tiles"] == [], "asking for nothing, hidden")


@slow
def test_screens_out_of_view_are_not_asked_for(visit: Visiting) -> None:
    with Stub(Run(tiles=32, evaluation=False)) as stub:
        page = live(visit, stub, width=390)
        assert 0 < len(last_watch(stub)["tiles"]) < 16
        page.page.locator("[data-layout=classic]").click()
        assert page.page.locator("#grid > li:visible").count() == 8
        page.page.locator("#page-on").click()
        assert page.text("#page-of").endswith("16 of 32")
        page.until(lambda: min(last_watch(stub)["tiles"]) >= 8, "the next screens")


@slow
def test_enlarged_tile_shows_both_pictures_and_what_the_policy_thinks(
    stub: Stub, visit: Visiting, tmp_path: Path
) -> None:
    page = live(visit, stub)
    page.page.locator("[data-tile='1'] button").first.click()
    page.until(lambda: last_watch(stub) | {"fps": 0} == watching([1], "both"), "one tile")
    page.page.locator("#large-rgb canvas[data-drawn]").wait_for()
    page.page.locator("#large-obs canvas[data-drawn]").wait_for()
    page.page.locator("[data-figure=probabilities]").wait_for()
    assert {"left", "right"} < set(page.text("[data-figure=q]").split())
    assert page.text("[data-figure=value] b")
    with page.page.expect_download() as download:
        page.page.keyboard.press("s")
    download.value.save_as(tmp_path / "clip.gif")
    with Image.open(tmp_path / "clip.gif") as clip:
        assert (clip.format, getattr(clip, "n_frames", 1)) == ("GIF", 10)
    page.page.locator("#clip-format").select_option("mp4")
    page.page.locator("#clip").click()
    page.until(lambda: "imageio-ffmpeg is missing" in page.text("#clip-said"), "the reason")
    page.page.locator("#back").click()
    page.until(lambda: len(last_watch(stub)["tiles"]) > 1, "all tiles")
    assert stub.heard[-1][1] != {"type": "enlarge", "tile": 1}


@slow
def test_text_is_shown_as_text_in_its_colours(run: Run, stub: Stub, visit: Visiting) -> None:
    run.written = {0: MAZE, 2: "You open the trunk. " * 40 + "\n> take key\n> look"}
    page = live(visit, stub)
    page.until(lambda: "HFFG" in page.text("[data-tile='0'] .text"), "the maze")
    assert page.text("[data-tile='0'] .text .back") == "S"
    assert page.text("[data-tile='0'] .text") == "SFFF\nFHFH\nFFFH\nHFFG"
    assert not page.page.locator("[data-tile='0'] canvas").is_visible()
    for width, theme in LOOKS:
        page.page.set_viewport_size({"width": width, "height": 800})
        page.page.emulate_media(color_scheme=theme)
        red = "getComputedStyle(document.querySelector('.text .back')).backgroundColor"
        assert page.page.evaluate(red) == "rgb(255, 141, 132)", theme
        check_look(page.page, width, f"text, {theme}, {width} pixels")
    page.page.locator("[data-tile='2'] button").first.click()
    page.until(lambda: "take key" in page.text("#large-rgb .text"), "the story")
    check_look(page.page, width, "a large text")
    assert page.said == []


def watching(tiles: list[int], mode: str) -> dict[str, Any]:
    return {"type": "watch", "tiles": tiles, "fps": 0, "mode": mode}


@slow
def test_language_and_theme_are_the_browsers_until_chosen_and_remembered(
    stub: Stub, visit: Visiting
) -> None:
    page = live(visit, stub, locale="zh-CN", theme="light")
    assert page.page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.text("#screens-title") == "画面"
    assert "运行中" in page.text("[data-tile='0'] .state")
    page.page.locator("#language").click()
    page.page.locator("#theme").click()
    page.page.locator("[data-layout=classic]").click()
    page.page.reload()
    page.until(lambda: page.text("#screens-title") == "Screens", "English")
    assert page.page.evaluate("document.documentElement.lang") == "en"
    assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.until(lambda: page.page.locator("#grid > li:visible").count() == 8, "4 x 2")


@slow
def test_page_is_accessible_and_fits(run: Run, stub: Stub, visit: Visiting) -> None:
    run.count = 3
    run.notes[1] = "no picture: render() takes longer than 2 s; it is not called any more"
    page = live(visit, stub, charts=True)
    keys = page.page.keyboard
    for width, theme in LOOKS:
        page.page.set_viewport_size({"width": width, "height": 800})
        page.page.emulate_media(color_scheme=theme)
        page.page.locator("[data-chart=return]").scroll_into_view_if_needed()
        page.until(lambda: "return" in page.points(), "a chart")
        check_look(page.page, width, f"{theme}, {width} pixels")
        keys.press("Enter")
        page.page.locator("[data-figure=value]").wait_for()
        check_look(page.page, width, f"one tile, {theme}, {width} pixels")
        keys.press("Escape")
    keys.press("?")
    check_look(page.page, width, "the help")
    assert page.said == []


@slow
def test_page_comes_back_when_its_server_does(run: Run, visit: Visiting) -> None:
    with Stub(run) as stub:
        port = stub.port
        page = live(visit, stub, charts=True)
        page.page.keyboard.press("2")
        page.page.keyboard.press("Enter")
        page.page.locator("#large-rgb canvas[data-drawn]").wait_for()
    page.until(lambda: page.page.locator("#connection[data-state=lost]").count(), "the loss")
    assert "lost" in page.text("#spoken")
    drawn = int(page.page.locator("#large-rgb canvas").get_attribute("data-drawn") or 0)
    with Stub(run, port) as again:
        page.until(lambda: page.text("#connection") == "live", "the way back")
        canvas = page.page.locator("#large-rgb canvas")
        page.until(lambda: int(canvas.get_attribute("data-drawn") or 0) > drawn, "pictures")
        assert last_watch(again) | {"fps": 0} == watching([1], "both")
        assert {"type": "enlarge", "tile": 1} in [said for _, said in again.heard]
        page.until(lambda: min(page.points()["return"]) > 100, "the history")


@slow
def test_time_line_forgets_another_run_that_was_served_here(run: Run, visit: Visiting) -> None:
    legend = "#legend > li:visible"
    with Stub(run) as stub:
        port = stub.port
        page = live(visit, stub)
        page.page.locator("#nodes").scroll_into_view_if_needed()
        page.until(lambda: page.page.locator(legend).count() > 3, "what nodes do")
    other = Run(past=0)
    other.directory, other.cycles = "", dict.fromkeys(run.cycles, ("waiting",))
    with Stub(other, port):
        page.until(lambda: page.text("#connection") == "live", "the other run")
        page.until(lambda: page.page.locator(legend).count() == 1, "its states alone")
        other.outcome = "stopped"
        page.page.reload()
        page.until(lambda: "stopped" in page.text("#banner"), "the end")
    page.until(lambda: page.page.locator("#connection[data-state=lost]").count(), "the loss")
    assert "watch" not in page.text("#banner"), "nothing is left of it"


@slow
def test_page_that_is_turned_away_asks_less_and_less(stub: Stub, visit: Visiting) -> None:
    stub.full = True
    page = visit(stub.url, charts=False)
    page.until(lambda: stub.visits >= 3, "three attempts")
    before = stub.visits
    page.page.wait_for_timeout(1200)  # the fourth comes 1.6 s after the third
    assert stub.visits - before <= 1
    stub.full = False
    page.until(lambda: page.text("#connection") == "live", "the page")


@slow
def test_end_and_missing_frames_are_said(run: Run, stub: Stub, visit: Visiting) -> None:
    run.frames, run.outcome = False, "solved: mean return 489.2"
    page = visit(stub.url)
    page.until(lambda: "solved: mean return 489.2" in page.text("#banner"), "the end")
    assert "fastloop stop" in page.text("#no-frames")
    page.until(lambda: "ended" in page.text("[data-tile='0'] .state"), "the tiles' end")
    page.until(lambda: "return" in page.points(), "the charts")
    assert last_watch(stub)["tiles"] == []


@slow
def test_ended_run_whose_policy_plays_has_screens_that_run(
    run: Run, stub: Stub, visit: Visiting
) -> None:
    run.outcome = "finished: solved"
    page = live(visit, stub)
    assert page.text("#phase") == "ended"
    assert "finished: solved\nHere its policy plays" in page.text("#banner")
    page.until(lambda: "running" in page.text("[data-tile='0'] .state"), "it plays")
    assert page.page.locator(".timeline").is_hidden()
    page.page.keyboard.press("Enter")
    page.page.locator("#large-obs canvas[data-drawn]").wait_for()
    assert page.page.locator(".insight").is_hidden()


@slow
def test_tile_without_a_picture_says_what_it_waits_for(
    run: Run, stub: Stub, visit: Visiting
) -> None:
    run.blind = {0, 1}
    run.notes = {1: "no picture: <b>render()</b> raised ValueError", 4: "env-0 waits for training"}
    page = visit(stub.url, charts=False)
    page.until(lambda: page.text("[data-tile='0'] .cover") == "Waiting...\nrestarting", "the state")
    assert "<b>render()</b> raised" in page.text("[data-tile='1'] .cover")  # text, never markup
    page.until(lambda: "<b>render()</b> raised" in page.text("[data-tile='1'] .note"), "the note")
    assert page.page.locator("[data-tile='4'] .note").is_hidden()  # it would come and go
    assert page.page.locator("[data-tile='4'] .state").get_attribute("title") == run.notes[4]


@slow
def test_pictures_are_acknowledged_soon_after_they_were_taken(stub: Stub, visit: Visiting) -> None:
    def ages_ms() -> list[float]:
        acks = [(said["seq"], at) for at, said in list(stub.heard) if said["type"] == "ack"]
        return sorted(1000 * (at - stub.sent[number][0]) for number, at in acks)

    live(visit, stub).until(lambda: len(ages_ms()) > 40, "forty pictures")
    ages = ages_ms()
    print(f"taken to drawn: median {ages[len(ages) // 2]:.0f} ms, slowest {ages[-1]:.0f} ms")


def test_link_of_another_site_lets_in_with_the_token(visit: Visiting) -> None:
    """As a notebook's does: a browser sends no strict cookie where such a link is redirected."""
    with served(Pretend(), token="0123456789abcdef") as server:
        page = visit("about:blank", charts=False)
        link = f"<a href='{server.url}?token=0123456789abcdef'>the page of this run</a>"
        page.page.route("**/notebook", lambda to: to.fulfill(body=link, content_type="text/html"))
        page.page.goto("http://notebook.invalid/notebook")
        page.page.locator("a").click()
        page.until(lambda: page.text("#connection") == "live", "the page")
        assert page.page.url == server.url
