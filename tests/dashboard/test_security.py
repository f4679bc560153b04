"""Only this page, by its own name, with its token if it has one."""

from __future__ import annotations

from typing import Any

import pytest

from fast_core.dashboard.security import Access

TOKEN = "0123456789abcdef"
HOST = "127.0.0.1:8420"


def scope(*headers: tuple[str, str], path: str = "/", query: str = "", **more: Any) -> Any:
    return {
        "type": "http",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "server": ("127.0.0.1", 8420),
        **more,
    }


def status(access: Access, asked: Any) -> int:
    refusal = access.refusal(asked)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("host", HOST)], 200),
        ([("host", "localhost:9999")], 200),
        ([("host", "[::1]:8420")], 200),
        ([("host", "box.example")], 200),
        ([], 421),
        ([("host", "")], 421),
        ([("host", "evil.example")], 421),
        ([("host", "127.0.0.1.evil.example:8420")], 421),
        ([("host", "evil.example@127.0.0.1:8420")], 421),
        ([("host", HOST), ("host", "evil.example")], 421),
        ([("host", "[::1")], 421),
        ([("host", "a@b")], 421),
        ([("host", HOST), ("origin", f"http://{HOST}")], 200),
        ([("host", HOST), ("origin", "http://evil.example")], 403),
        ([("host", HOST), ("origin", "http://127.0.0.1:9")], 403),
        ([("host", HOST), ("origin", "null")], 403),
        ([("host", HOST), ("sec-fetch-site", "same-origin")], 200),
        ([("host", HOST), ("sec-fetch-site", "cross-site")], 403),
    ],
)
def test_foreign_names_and_pages_are_refused(
    kind: str, headers: list[tuple[str, str]], expected: int
) -> None:
    access = Access("127.0.0.1", 8420, hosts=("Box.example", ""))
    assert status(access, scope(*headers, path="/ws", type=kind)) == expected


def test_link_from_another_page_leads_to_the_page_itself() -> None:
    access = Access("127.0.0.1", 8420)
    assert status(access, scope(("host", HOST), ("sec-fetch-site", "cross-site"))) == 200


def test_address_that_a_request_came_to_is_a_name() -> None:
    access = Access("0.0.0.0", 8420, TOKEN)
    shown = ("authorization", f"Bearer {TOKEN}")
    reached = {"server": ("192.168.0.7", 8420)}
    assert status(access, scope(("host", "192.168.0.7:8420"), shown, **reached)) == 200
    assert status(access, scope(("host", "192.168.0.8:8420"), shown, **reached)) == 421


def test_token_is_shown_in_three_ways_and_in_no_other() -> None:
    access = Access("127.0.0.1", 8420, TOKEN)
    host = ("host", HOST)
    cookie = access.cookie(scope(host))
    ticket = f"{cookie}={access.ticket}"
    assert status(access, scope(host)) == 401
    assert status(access, scope(host, ("authorization", f"Bearer {TOKEN}"))) == 200
    assert status(access, scope(host, ("authorization", f"bearer  {TOKEN} "))) == 200
    assert status(access, scope(host, ("authorization", f"Basic {TOKEN}"))) == 401
    assert status(access, scope(host, ("authorization", "Bearer \xe4"))) == 401
    assert status(access, scope(host, ("cookie", f"a=b; {ticket}"), path="/ws")) == 200
    assert status(access, scope(host, ("cookie", f"{cookie}={TOKEN}"))) == 401
    assert status(access, scope(host, ("cookie", f"{cookie}=\xe4"))) == 401
    assert status(access, scope(host, query=f"token={TOKEN}")) == 200
    assert status(access, scope(host, query=f"token={TOKEN}", path="/api/state")) == 401
    assert status(access, scope(host, query=f"token={TOKEN}", type="websocket")) == 401
    assert status(access, scope(host, query="token=0123456789abcdeg")) == 401
    assert TOKEN not in access.ticket


def test_no_two_pages_that_a_browser_has_open_share_a_cookie() -> None:
    here, other = (Access("127.0.0.1", port, TOKEN) for port in (8420, 8421))
    hosts = (HOST, "127.0.0.1:8421", "localhost", "[::1]")  # tunnels to it and to other machines
    cookies = [each.cookie(scope(("host", host))) for each in (here, other) for host in hosts]
    assert len({*cookies}) == 2 * 3


@pytest.mark.parametrize("other", ['a={"b":1}', "a[b]=1", 'a="b', ";;", "\xe4"])
def test_cookies_of_other_pages_of_this_machine_do_no_harm(other: str) -> None:
    access = Access("127.0.0.1", 8420, TOKEN)
    host = ("host", HOST)
    cookies = ("cookie", f"{other}; {access.cookie(scope(host))}={access.ticket}")
    assert status(access, scope(host, cookies, path="/ws")) == 200


@pytest.mark.parametrize("shown", ["0123456789abc+e/f==", "0123456789abc%2Be%2Ff%3D%3D"])
def test_token_of_base64_may_stand_in_the_address_as_it_is(shown: str) -> None:
    access = Access("127.0.0.1", 8420, "0123456789abc+e/f==")
    assert status(access, scope(("host", HOST), query=f"a=b&token={shown}")) == 200
    assert status(access, scope(("host", HOST), query="token=0123456789abc e/f==")) == 401
