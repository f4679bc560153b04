"""`fastloop watch` tells a run from a folder of runs."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from fast_core.dashboard.serving import url_of
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served, now_served
from fast_core.tools.watch import folder_at, shown, stay, watch
from tests.tools.made_runs import made_run


def test_run_directory_is_a_run_whatever_it_is_called(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert folder_at(run) is None
    assert folder_at(run.rename(tmp_path / "kept")) is None


def test_name_of_one_run_is_that_run_and_of_several_a_folder(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert folder_at(run.parent) is None
    assert RunDirectory.open(run.parent).path == run
    made_run(tmp_path, "seed=1")
    assert folder_at(run.parent) == run.parent
    assert folder_at(tmp_path) == tmp_path


def test_sweep_and_folder_without_runs_yet_are_folders(tmp_path: Path) -> None:
    assert folder_at(tmp_path) == tmp_path
    folder = made_run(tmp_path).parent
    (folder / "sweep.yaml").touch()
    assert folder_at(folder) == folder


def test_nothing_is_refused_as_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        watch(tmp_path / "runs", host="127.0.0.1", port=0, opens=False)


def test_policy_of_a_run_that_goes_on_or_of_a_folder_plays_nowhere(tmp_path: Path) -> None:
    run = RunDirectory(made_run(tmp_path, outcome=None))
    with (
        closing(run.lock()),
        socket.create_server(("127.0.0.1", 0)) as page,
        pytest.raises(ConfigError, match="--play is for a run that has ended"),
    ):
        port = page.getsockname()[1]
        Served(url_of("127.0.0.1", page), port, os.getpid()).write(run.dashboard)
        watch(run.path, host="127.0.0.1", port=0, opens=False, plays=True)
    made_run(tmp_path, "seed=1")
    with pytest.raises(ConfigError, match="a folder of runs"):
        watch(tmp_path, host="127.0.0.1", port=0, opens=False, plays=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_page_that_a_run_serves_itself_is_found_at_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    run = RunDirectory(made_run(tmp_path, outcome=None))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(run.lock()), socket.create_server((host, 0), family=family) as listening:
        url, port = url_of(host, listening), listening.getsockname()[1]
        Served(url, port, os.getpid(), "made").write(run.dashboard)
        assert watch(run.path, host="127.0.0.1", port=0, opens=False) == 0
        with subprocess.Popen(["true"]) as gone:
            gone.wait()
        Served(url, port, gone.pid).write(run.dashboard)  # and who listens there is another
        assert now_served(run.dashboard) is None
    assert f"serves its page itself: {url}?token=made\n" in capsys.readouterr().out


def test_browser_finds_the_token_in_a_file_for_its_user_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    with shown(Served("http://127.0.0.1:1/", 1, 2, "secret")):
        path = Path(urlsplit(opened[0]).path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert 'url=http://127.0.0.1:1/?token=secret"' in path.read_text()
    assert "secret" not in opened[0] and not path.exists()
    assert capsys.readouterr().out == "no browser could be opened here\n"


def test_token_that_is_printed_where_others_read_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over: Any = SimpleNamespace(count=1)
    with (tmp_path / "watch.log").open("w") as log:
        monkeypatch.setattr("sys.stdout", log)
        for mode, token in ((0o600, "secret"), (0o644, ""), (0o644, "secret")):
            assert capsys.readouterr().err == ""
            os.chmod(log.fileno(), mode)
            stay(Served("http://127.0.0.1:1/", 1, 2, token), 1, print, over, opens=False)
    assert "other users can read the token here" in capsys.readouterr().err
