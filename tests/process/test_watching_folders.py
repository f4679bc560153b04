"""`fastloop watch DIRECTORY` as a process, beside a run that trains."""

from __future__ import annotations

import json
import re
import signal
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.process.harness import Workplace, eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_folder_is_watched_while_a_run_of_it_begins_and_ends(workplace: Workplace) -> None:
    home = workplace.folder()
    (home / "runs").mkdir()
    arguments = ["-m", "fast_core.tools.cli", "watch", "runs", "--port", "0"]
    watching = workplace.start(arguments, home=home)
    at = eventually(
        lambda: re.search(r"(http://\S+/)\?token=(\S+)", watching.screen), watching.screen
    )

    def rows() -> list[dict[str, Any]]:
        asked = Request(f"{at[1]}api/runs", headers={"Authorization": f"Bearer {at[2]}"})
        with build_opener(ProxyHandler({})).open(asked, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["runs"]
        return found

    assert rows() == [] and "0 runs in" in watching.screen
    run = workplace.launch(home=home)
    eventually(lambda: [row["state"] for row in rows()] == ["running"], "the run")
    eventually(lambda: rows()[0]["env_steps"] > 0, "its steps")
    run.signal(signal.SIGKILL)
    run.wait()
    eventually(lambda: [row["state"] for row in rows()] == ["interrupted"], "its end")
    watching.signal(signal.SIGINT)
    watching.ends()
