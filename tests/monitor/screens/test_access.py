"""Whether a page may be served is known before anything starts."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from fast_core.config import DashboardConfig
from fast_core.errors import ConfigError
from fast_core.monitor.screens import access
from fast_core.monitor.screens.access import TOKEN, check_page, is_loopback, made_token, others_read
from fast_core.monitor.screens.served import Served, read_served

SECRET = "0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.7", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_known(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_other_address_needs_a_token_that_is_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    page = DashboardConfig(host="0.0.0.0")
    monkeypatch.delenv(TOKEN, raising=False)
    check_page(DashboardConfig())
    with pytest.raises(ConfigError, match=f"needs a token: set the environment variable {TOKEN}"):
        check_page(page)
    monkeypatch.setenv(TOKEN, "short")
    for each in (page, DashboardConfig()):
        with pytest.raises(ConfigError, match="at least 16 characters") as refused:
            check_page(each)
        assert "short" not in str(refused.value)
    monkeypatch.setenv(TOKEN, SECRET)
    check_page(page)


def test_page_for_which_nobody_names_a_token_has_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    made = made_token()
    assert len(made) >= 32 and made != made_token()
    assert made_token(made) == made
    assert Served("http://127.0.0.1:1/", 1, 2, made).address == f"http://127.0.0.1:1/?token={made}"
    monkeypatch.setenv(TOKEN, SECRET)
    assert made_token(made) == ""
    assert SECRET not in Served("http://127.0.0.1:1/", 1, 2).address


def test_output_that_other_users_read_is_known(tmp_path: Path) -> None:
    with (tmp_path / "slurm.out").open("w") as file:
        os.fchmod(file.fileno(), 0o600)
        assert not others_read(file)
        for mode in (0o640, 0o604):
            os.fchmod(file.fileno(), mode)
            assert others_read(file)
    with open(os.devnull, "w") as device:
        assert not others_read(device)
    assert not others_read(io.StringIO()) and not others_read(None)


@pytest.mark.parametrize("letters", ["0123456789abcdef \u00e4", "0123456789abcdef\udcff"])
def test_token_that_no_browser_can_send_is_refused(
    monkeypatch: pytest.MonkeyPatch, letters: str
) -> None:
    monkeypatch.setenv(TOKEN, letters)
    with pytest.raises(ConfigError, match="ASCII") as refused:
        check_page(DashboardConfig())
    assert "0123" not in str(refused.value)


@pytest.mark.parametrize("name", ["box.example", "::1", "[::1]", "192.168.0.7", "b\u00fccher"])
def test_name_of_a_proxy_is_taken(name: str) -> None:
    check_page(DashboardConfig(hosts=(name,)))


@pytest.mark.parametrize("name", ["", "http://box", "box:80", "a/b", "a@b", "a b"])
def test_what_no_name_is_would_let_nobody_in_and_is_said(name: str) -> None:
    with pytest.raises(ConfigError, match=r"dashboard\.hosts must be names"):
        check_page(DashboardConfig(hosts=(name,)))


def test_missing_package_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "find_spec", lambda name: None if name == "PIL" else name)
    remedy = re.escape("needs pillow: run `pip install -e '.[dashboard]'` in ")
    with pytest.raises(ConfigError, match=remedy):
        check_page(DashboardConfig())


def test_where_it_is_served_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.json"
    assert read_served(path) is None
    served = Served("http://127.0.0.1:8420/", 8420, 7)
    served.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_served(path) == served
    other = Served("http://127.0.0.1:8421/", 8421, 8)
    other.write(path)
    served.remove(path)
    assert read_served(path) == other, "that of whoever serves now stays"
    other.remove(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("{")
    assert read_served(path) is None
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError):
        served.write(path)
    assert list(tmp_path.iterdir()) == [path], "and no part of it"
