"""The page's server, asked over real sockets and without a browser."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from fast_core.dashboard import broadcast, clients, serving
from fast_core.dashboard.pictures import Kind
from fast_core.dashboard.server import PageServer
from fast_core.dashboard.serving import listen
from fast_core.dashboard.source import End, Event
from fast_core.errors import ConfigError, FastLoopError
from fast_core.run.frame import Frame
from tests.dashboard.served import Pretend, picture_of, served
from tests.dashboard.served import ack as drawn
from tests.process.harness import eventually

SECRET = "0123456789abcdef"


@pytest.fixture
def source() -> Pretend:
    return Pretend()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def server(source: Pretend, said: list[str]) -> Iterator[PageServer]:
    with served(source, said) as made:
        yield made


def get(server: PageServer, path: str, **headers: str) -> tuple[int, bytes, Any]:
    asked = Request(server.url[:-1] + path, headers=headers)
    try:
        with urlopen(asked) as answer:
            return answer.status, answer.read(), answer.headers
    except HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def talk(server: PageServer, **options: Any) -> ClientConnection:
    return connect(server.url.replace("http", "ws") + "ws", max_size=None, **options)


def say(link: ClientConnection, **message: object) -> None:
    link.send(json.dumps(message))


def pictures(
    link: ClientConnection, count: int, *, ack: bool = True
) -> list[tuple[int, int, int, float, bytes]]:
    """So many pictures: kind, tile, sequence number, age and image file of each."""
    found = []
    for _ in range(count):
        found.append(picture_of(link))
        if ack:
            drawn(link, found[-1])
    return found


def texts(link: ClientConnection, kind: str, count: int = 1) -> list[Any]:
    """So many messages of a type."""
    found: list[Any] = []
    while len(found) < count:
        data = link.recv(timeout=10)
        if isinstance(data, str) and (message := json.loads(data))["type"] == kind:
            found.append(message)
    return found


# --- files ---------------------------------------------------------------------------------------


def test_page_brings_everything_with_it_and_keeps_to_itself(server: PageServer) -> None:
    status, body, headers = get(server, "/")
    assert status == 200 and b"<html" in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert get(server, "/assets/app.js")[0] == 200
    status, script, headers = get(server, "/plotly.js")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert len(script) > 1 << 20
    assert json.loads(get(server, "/api/state")[1])["phase"] == "training"


@pytest.mark.parametrize(
    "path",
    ["/assets/../node.py", "/assets/..%2fnode.py", "/assets/%2e%2e/server.py", "/assets/", "/etc"],
)
def test_path_that_leads_elsewhere_is_not_found(server: PageServer, path: str) -> None:
    assert get(server, path)[0] == 404


# --- who is let in -------------------------------------------------------------------------------


def test_foreign_host_and_origin_are_refused_for_the_socket_too(
    server: PageServer, said: list[str]
) -> None:
    assert get(server, "/", Host="evil.example")[0] == 421
    assert get(server, "/api/state", Origin="http://evil.example")[0] == 403
    for _ in range(2):
        with pytest.raises(InvalidStatus) as refused, talk(server, origin="http://evil.example"):
            pass
        assert refused.value.response.status_code == 403
    eventually(lambda: len(said) == 2, "each refusal, told once")


def test_token_becomes_a_cookie_that_other_pages_do_not_send(source: Pretend) -> None:
    with served(source, token=SECRET) as server:
        for path in ("/", "/api/state", "/plotly.js", "/assets/app.js"):
            assert get(server, path)[0] == 401
        with pytest.raises(InvalidStatus), talk(server):
            pass
        with socket.create_connection(("127.0.0.1", server.port)) as link:
            link.sendall(
                f"GET /?token={SECRET} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            answer = b"".join(iter(lambda: link.recv(4096), b"")).decode()
        assert answer.startswith("HTTP/1.1 200") and "refresh: 0; url=./\r\n" in answer
        (cookie,) = (line for line in answer.split("\r\n") if line.startswith("set-cookie"))
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and SECRET not in cookie
        shown = cookie.partition(": ")[2].partition(";")[0]
        assert get(server, "/", Cookie=shown)[0] == 200
        with talk(server, additional_headers={"Cookie": shown}) as socket_link:
            texts(socket_link, "hello")
        with talk(server, additional_headers={"Authorization": f"Bearer {SECRET}"}) as socket_link:
            texts(socket_link, "hello")


@pytest.mark.parametrize(
    "rubbish",
    [
        "rubbish",
        '{"x":' + "[" * 3900,
        "[]",
        "{}",
        b"\x00\xff",
        '{"type": "launch", "config": "x"}',
        '{"type": "watch", "tiles": [0], "fps": 5, "mode": "rgb", "more": 1}',
        '{"type": "watch", "tiles": "all"}',
        '{"type": "watch", "tiles": [0], "fps": 1e9}',
        '{"type": "watch", "tiles": [-1]}',
        '{"type": "ack", "seq": 1e400}',
        "[" * 3000,
        "x" * 5000,
    ],
)
def test_rubbish_ends_the_connection_and_nothing_else(
    server: PageServer, said: list[str], rubbish: str | bytes
) -> None:
    with talk(server) as fine:
        for _ in range(2):
            with talk(server) as link:
                link.send(rubbish)
                with pytest.raises(ConnectionClosed) as closed:
                    texts(link, "never")
            assert closed.value.rcvd is not None and closed.value.rcvd.code in (1008, 1009)
        texts(fine, "now", 2)
    server.check()
    assert len(said) <= 1


def test_what_can_not_be_sent_is_said_once(
    server: PageServer, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(frame: Frame, kind: Kind) -> bytes:
        raise TypeError("no picture")

    monkeypatch.setattr(broadcast, "encode", fails)
    for _ in range(2):
        with talk(server) as link, pytest.raises(ConnectionClosed):
            say(link, type="watch", tiles=[0])
            texts(link, "never")
    assert said == ["the page can't send what a browser wants: TypeError: no picture (said once)"]
    server.check()


# --- frames --------------------------------------------------------------------------------------


def test_tiles_are_wanted_only_while_somebody_shows_them(
    server: PageServer, source: Pretend
) -> None:
    with talk(server) as link:
        texts(link, "now")
        assert source.wanted == {} and source.numbers[0] == -1
        say(link, type="watch", tiles=[0, 3, 99], fps=5, mode="rgb")
        eventually(lambda: source.wanted == {0: 200_000_000, 3: 200_000_000}, "two tiles")
        with talk(server) as other:
            say(other, type="watch", tiles=[3], fps=10, mode="rgb")
            eventually(lambda: source.wanted == {0: 200_000_000, 3: 100_000_000}, "the faster one")
        eventually(lambda: source.wanted == {0: 200_000_000, 3: 200_000_000}, "the other gone")
        say(link, type="watch", tiles=[], fps=5, mode="rgb")
        eventually(lambda: source.wanted == {}, "a pause")


def test_next_picture_of_a_tile_waits_until_the_last_one_is_drawn(
    server: PageServer, source: Pretend
) -> None:
    with talk(server) as link:
        say(link, type="watch", tiles=[0, 1], fps=30, mode="rgb")
        first = pictures(link, 2, ack=False)
        assert sorted(tile for _, tile, *_ in first) == [0, 1]
        seen = source.numbers[0]
        eventually(lambda: source.numbers[0] > seen + 5, "some frames more")
        say(link, type="ack", seq=next(seq for _, tile, seq, *_ in first if tile == 1))
        ((kind, tile, _, age_ms, data),) = pictures(link, 1, ack=False)
        assert (kind, tile) == (1, 1)
        assert data.startswith(b"\xff\xd8")
        assert 0 <= age_ms < 5000


def test_both_pictures_of_a_frame_and_what_there_is_without_one(
    server: PageServer, source: Pretend
) -> None:
    with talk(server) as link:
        say(link, type="watch", tiles=[2], fps=30, mode="both")
        assert [kind for kind, *_ in pictures(link, 4)] == [1, 2, 1, 2]
        source.changes = {"picture": None, "note": "no picture: render() raised"}
        eventually(lambda: {k for k, *_ in pictures(link, 2)} == {2}, "observations alone")


def test_text_is_sent_as_text_and_saved_as_a_film(server: PageServer, source: Pretend) -> None:
    source.changes = {"picture": None, "text": "SFFF\nFHFH \N{BLACK STAR}"}
    with talk(server) as link:
        say(link, type="watch", tiles=[2], fps=30, mode="both")
        first, second, *_ = pictures(link, 6)
        assert (first[0], second[0], first[-1].decode()) == (3, 2, "SFFF\nFHFH \N{BLACK STAR}")
        status, film, _ = get(server, "/api/clip?tile=2&format=gif&seconds=5")
        assert status == 200 and film.startswith(b"GIF89a")


def test_frame_is_encoded_once_whoever_watches(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fast_core.dashboard import broadcast

    made: list[int] = []
    encode = broadcast.encode

    def counted(*given: Any) -> bytes:
        made.append(1)
        return encode(*given)

    monkeypatch.setattr(broadcast, "encode", counted)
    with ExitStack() as stack:
        links = [stack.enter_context(talk(server)) for _ in range(3)]
        for link in links:
            say(link, type="watch", tiles=[0], fps=20, mode="rgb")
        shown = [pictures(link, 5) for link in links]
    numbers = [{seq for _, _, seq, *_ in each} for each in shown]
    assert len(numbers[0] | numbers[1] | numbers[2]) <= len(made)
    assert numbers[0] & numbers[1] & numbers[2], "the very same pictures"


def test_enlarged_tile_brings_what_the_policy_thinks(server: PageServer) -> None:
    with talk(server) as link:
        say(link, type="enlarge", tile=5)
        say(link, type="watch", tiles=[0], fps=30, mode="rgb")
        assert texts(link, "insight")[0]["tile"] == 5


def test_clip_of_what_was_watched(server: PageServer) -> None:
    assert get(server, "/api/clip?tile=0&format=gif&seconds=3")[0] == 409
    for asked in ("tile=0&format=exe", "tile=x", "", "tile=0&seconds=1e9", "tile=0&seconds=nan"):
        assert get(server, f"/api/clip?{asked}")[0] == 400
    with talk(server) as link:
        say(link, type="watch", tiles=[0], fps=30, mode="rgb")
        pictures(link, 6)
        for form, begins in (("gif", b"GIF89a"), ("mp4", b"ftyp")):
            status, film, _ = get(server, f"/api/clip?tile=0&format={form}&seconds=5")
            assert status == 200 and begins in film[:12]


# --- slow browsers -------------------------------------------------------------------------------


@pytest.mark.slow
def test_browser_that_reads_nothing_costs_nothing(
    server: PageServer, source: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DASH-03: frames are dropped, memory stays, and the others see fresh ones."""
    monkeypatch.setattr(clients, "PATIENCE_S", 0.5)
    broadcast = server._page
    with talk(server) as fast, stall(server):
        say(fast, type="watch", tiles=list(range(8)), fps=30, mode="rgb")
        eventually(lambda: len(broadcast._connections) == 2, "both")
        pictures(fast, 80)
        for each in broadcast._connections:
            assert all(len(under_way) <= 1 for under_way in each.client._open.values())
        assert len(broadcast._newest) == 8, "one frame of each tile, whoever waits"
        source.coming = [Event(1.0, "x", "y" * 1000) for _ in range(9000)]
        assert all(age_ms < 1000 for *_, age_ms, _ in pictures(fast, 40))

        def alone() -> bool:
            pictures(fast, 1)  # it goes on reading
            return len(broadcast._connections) == 1

        eventually(alone, "the slow one told to come again")


def stall(server: PageServer) -> socket.socket:
    """A browser that asks for everything and reads nothing."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(("127.0.0.1", server.port))
    link.sendall(
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    message = b'{"type":"watch","tiles":[0,1,2,3,4,5,6,7],"fps":30,"mode":"rgb"}'
    link.sendall(bytes([0x81, 0x80 | len(message)]) + bytes(4) + message)
    return link


# --- the server itself ---------------------------------------------------------------------------


def test_end_is_told_and_nothing_is_left(source: Pretend) -> None:
    before = threading.active_count()
    with served(source) as server, talk(server) as link:
        texts(link, "hello")
        source.coming = [Event(1.0, "end", "so")]
        server.close(lambda: "finished: enough")
        assert texts(link, "event")[0]["text"] == "so", "what was new comes before"
        assert texts(link, "end") == [{"type": "end", "text": "finished: enough"}]
        with pytest.raises(ConnectionClosed):
            texts(link, "never")
    assert source.closed
    # one of a test before may have been on its way out
    eventually(lambda: threading.active_count() <= before, "no thread")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))


def test_news_reach_everybody(server: PageServer, source: Pretend) -> None:
    with talk(server) as one, talk(server) as other:
        texts(one, "hello")
        texts(other, "hello")
        source.coming = [End("over")]
        assert texts(one, "end") == texts(other, "end")


def test_fault_of_a_source_is_the_servers(source: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(source) as server:

        def fails() -> list[Any]:
            raise OSError("no file")

        monkeypatch.setattr(source, "news", fails)

        def ended() -> bool:
            try:
                server.check()
            except FastLoopError as error:
                assert "OSError: no file" in str(error)
                return True
            return False

        eventually(ended, "the end of the server")


def test_thread_that_hangs_is_noticed(source: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HANGS_S", 0.3)
    hangs = threading.Event()
    with served(source) as server:
        monkeypatch.setattr(source, "news", lambda: hangs.wait(10) and [])

        def noticed() -> bool:
            try:
                server.check()
            except FastLoopError as error:
                assert "has not come back for 0.3 s" in str(error)
                return True
            return False

        eventually(noticed, "the hang")
        hangs.set()


def test_frame_of_before_a_pause_is_not_shown_again(server: PageServer, source: Pretend) -> None:
    asked: list[int] = []
    frame = source.frame
    source.frame = lambda tile, newer: asked.append(newer) or frame(tile, newer)  # type: ignore
    with talk(server) as link:
        for _ in range(2):
            say(link, type="watch", tiles=[0], fps=30, mode="rgb")
            pictures(link, 2)
            say(link, type="watch", tiles=[], fps=30, mode="rgb")
            eventually(lambda: source.wanted == {}, "a pause")
    assert asked.count(-1) == 1


def test_port_in_use_gives_way_to_the_next_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with listen("127.0.0.1", port) as other:
            assert port < other.getsockname()[1] < port + serving.PORTS
        monkeypatch.setattr(serving, "PORTS", 1)
        with pytest.raises(ConfigError, match=f"no port from {port} to {port} is free"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host", "256.1.1.1"])
def test_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be served at dashboard\.host"):
        listen(host, 0)


def test_port_is_free_again_at_once(source: Pretend) -> None:
    with served(source) as server, talk(server) as link:
        texts(link, "hello")
        port = server.port
    with listen("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port
