"""The page of a real run, without a browser: its death changes nothing, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from fast_core.monitor.screens.served import Served, read_served
from tests.dashboard.served import ack, picture_of
from tests.process.harness import TOY, Launched, Workplace, digests, eventually

pytestmark = pytest.mark.process

CONFIG: dict[str, Any] = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "nodes": {"env": {"count": 1}},
    "checkpoint": {"every_updates": 64},
    "metrics": {"tensorboard": False, "interval_s": 0.1},
    "diagnostics": {"digests": True},
    "stop": {"env_steps": 32 * 150},
}
PAGE = {"enabled": True, "port": 0, "cpu_share": 0.5}


def served(launched: Launched, before: Served | None = None) -> Served:
    """Where the page is, once it is there and not served by the process of ``before``."""

    def find() -> Served | None:
        found = [read_served(path) for path in launched.home.glob("runs/*/*/dashboard.json")]
        return next((each for each in found if each and each != before), None)

    return eventually(find, f"a page\n{launched.screen}")  # type: ignore[no-any-return]


def state(page: Served) -> Any:
    with urlopen(Request(f"{page.url}api/state", headers=shown(page))) as answer:
        return json.load(answer)


def shown(page: Served) -> dict[str, str]:
    assert page.token, "made for this page"
    return {"Authorization": f"Bearer {page.token}"}


def test_killed_page_comes_back_at_its_port_and_no_bit_of_the_run_differs(
    workplace: Workplace,
) -> None:
    reference = workplace.launch("mode=inline", config=CONFIG)
    launched = workplace.launch(
        "diagnostics.delay_ms=20", config={**CONFIG, "dashboard": {**PAGE, "fps": 20}}
    )
    before = served(launched)
    assert launched.node("dashboard") == before.pid
    where = f"ws://127.0.0.1:{before.port}/ws"
    with pytest.raises(InvalidStatus), connect(where):
        pass
    with connect(where, additional_headers=shown(before), max_size=None) as link:
        link.send('{"type": "watch", "tiles": [0, 1, 2, 3], "fps": 20, "mode": "both"}')
        for _ in range(6):  # it is drawn while it trains
            ack(link, picture_of(link))
        os.kill(before.pid, signal.SIGKILL)
    after = served(launched, before)
    assert after.address == before.address
    eventually(lambda: state(after)["env_steps"] > 0, "figures of before")
    assert launched.wait(60) == 0, launched.screen
    assert reference.wait(60) == 0
    assert digests(launched.run) == digests(reference.run)
    pages = [each["facts"]["url"] for each in launched.events() if each["what"] == "page"]
    assert pages == [before.url, before.url]
    assert launched.screen.count(f"the page of this run: {before.address}\n") == 2
    kept = [path for path in launched.run.rglob("*") if path.is_file()]
    assert not any(before.token.encode() in path.read_bytes() for path in kept)
    assert not list(launched.run.glob("*dashboard.json*"))
    launched.assert_gone()


@pytest.mark.slow
def test_run_that_comes_back_has_its_page_where_it_was(workplace: Workplace) -> None:
    launched = workplace.launch(
        "supervision.restarts.optimizer=1",
        "diagnostics.delay_ms=10",
        "stop.env_steps=1000000",  # a busy machine may be long in serving the page
        config={**CONFIG, "dashboard": PAGE},
    )
    page = served(launched)
    launched.await_training()
    os.kill(launched.node("optimizer-0"), signal.SIGKILL)
    eventually(lambda: launched.screen.count(page.address) == 2, "the same address, anew", 60)
    launched.signal(signal.SIGINT)
    assert launched.wait(60) == 130, launched.screen


@pytest.mark.slow
def test_page_is_watched_and_leaves_nothing(workplace: Workplace) -> None:
    launched = workplace.launch(
        "stop.env_steps=1000000", "diagnostics.delay_ms=2", config={**CONFIG, "dashboard": PAGE}
    )
    page = served(launched)
    told = watch(workplace, launched)
    assert told.wait(30) == 0
    assert f"serves its page itself: {page.address}\n" in told.screen
    eventually(lambda: state(page)["updates"] > 64, "a checkpoint", 40)
    launched.interrupted(within_s=30)
    resumed = workplace.resume(launched, "stop.env_steps=1000000")
    again = served(resumed)
    eventually(lambda: state(again)["env_steps"] > 0, "the history of before")
    resumed.signal(signal.SIGINT)
    assert resumed.wait(30) == 130
    names = sorted(path.name for path in launched.run.iterdir())
    ended = watch(workplace, launched)
    eventually(lambda: "until Ctrl-C" in ended.screen, "a page of the ended run")
    assert "has ended" in ended.screen
    ((url, token),) = re.findall(r"(http://\S+/)\?token=(\S+)", ended.screen)
    headers = {"Authorization": f"Bearer {token}"}
    with urlopen(Request(f"{url}api/state", headers=headers)) as answer:
        assert json.load(answer)["phase"] == "interrupted"
    ended.signal(signal.SIGINT)
    assert ended.wait(30) == 0
    assert sorted(path.name for path in launched.run.iterdir()) == names
    ended.assert_gone()


@pytest.mark.slow
def test_policy_of_an_ended_run_plays_on_its_page(workplace: Workplace) -> None:
    launched = workplace.launch("mode=inline", "stop.env_steps=64", config=CONFIG).done()
    shown = watch(workplace, launched, "--play")
    eventually(lambda: "until Ctrl-C" in shown.screen, "a page")
    ((port, token),) = re.findall(r":(\d+)/\?token=(\S+)", shown.screen)
    headers = {"Authorization": f"Bearer {token}"}
    with connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers) as link:
        link.send('{"type": "watch", "tiles": [0, 7], "fps": 20, "mode": "rgb"}')
        seen = [picture_of(link) for _ in range(2)]
    assert {tile for _, tile, *_ in seen} == {0, 7} and {kind for kind, *_ in seen} == {1}
    shown.signal(signal.SIGINT)
    shown.ends(0, within_s=30)


@pytest.mark.slow
def test_run_in_one_process_says_where_its_page_is(workplace: Workplace) -> None:
    launched = workplace.launch("mode=inline", config={**CONFIG, "dashboard": PAGE}).done()
    (page,) = [each["facts"]["url"] for each in launched.events() if each["what"] == "page"]
    assert launched.screen.count(f"the page of this run: {page}?token=") == 1
    launched.assert_gone()


def watch(workplace: Workplace, launched: Launched, *options: str) -> Launched:
    return workplace.fastloop(["watch", str(launched.run), "--port", "0", *options], launched.home)
