"""Who is let in: requests for this page by its own name, from itself, with the token if any."""

from __future__ import annotations

import hashlib
import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.responses import HTMLResponse, PlainTextResponse

from fast_core.monitor.screens.access import TOKEN, is_loopback

Scope = MutableMapping[str, Any]  # as ASGI has it
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The page's own files and nothing else: no script or style in the page, no other machine, and no
# frame in another page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# What is shown for a moment; without an icon of its own a browser would ask for one.
_OPENING = '<!doctype html><title>FastLoop</title><link rel="icon" href="data:,">opening the page\n'


@dataclass(frozen=True)
class Refusal:
    """Why somebody is not let in."""

    status: int
    text: str


@dataclass(frozen=True)
class Access:
    """Who is let in.

    Attributes:
        host: Address that the page is served at.
        port: Its port.
        token: What has to be shown; empty where nothing is asked.
        hosts: Further names of this machine.
    """

    host: str
    port: int
    token: str = ""
    hosts: Sequence[str] = ()
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        own = () if is_loopback(self.host) else (socket.gethostname(), socket.getfqdn())
        names = {self.host, *self.hosts, *own}
        known = frozenset(name.strip("[]").lower() for name in names)
        object.__setattr__(self, "_names", known - {""})

    def cookie(self, scope: Scope) -> str:
        """Name of the cookie that shows the token.

        Browsers keep one jar for all ports of a machine, and all tunnels end on theirs: a page is
        told from others by its port and the one that the browser knows it by.
        """
        port = _values(scope, b"host")[0].rpartition(":")[2]
        return f"fastloop-{self.port}-{port if port.isdecimal() else 80}"

    @property
    def ticket(self) -> str:
        """The cookie's value, from which the token can't be found out."""
        return hmac.new(self.token.encode(), b"fastloop page", hashlib.sha256).hexdigest()

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why a request is refused; None if it isn't."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._knows(hosts[0], scope):
            return Refusal(
                421,
                f"this page is not served under the name {_shown(hosts)}. Open it by the address "
                "that `fastloop watch` prints, or name the other one in dashboard.hosts.",
            )
        origins = _values(scope, b"origin")
        if any(_authority(origin) != hosts[0].lower() for origin in origins):
            return Refusal(403, f"another page, {_shown(origins)}, may not use this one.")
        sites = _values(scope, b"sec-fetch-site")
        if scope["path"] != "/" and any(site not in ("same-origin", "none") for site in sites):
            return Refusal(403, "another page may not use this one.")
        if self.token and not (self._shows(scope) or self.brings_token(scope)):
            return Refusal(
                401,
                "this page needs a token. Open the address that the run printed, or that "
                "`fastloop watch RUN` prints, which has it; or add ?token=... to this one, where "
                f"the environment variable {TOKEN} of whoever serves it says the token.",
            )
        return None

    def brings_token(self, scope: Scope) -> bool:
        """Whether the address of the page has the token in it, which is changed for a cookie."""
        if not self.token or scope["type"] != "http" or scope["path"] != "/":
            return False
        # As it stands there, too: `+` and `=` are letters of base64.
        query = scope.get("query_string", b"").decode("latin-1")
        parts = [each.partition("=") for each in query.split("&")]
        shown = [value for name, _, value in parts if name == "token"]
        return any(self._is_token(each) or self._is_token(unquote(each)) for each in shown)

    def _shows(self, scope: Scope) -> bool:
        for value in _values(scope, b"authorization"):
            scheme, _, shown = value.partition(" ")
            if scheme.lower() == "bearer" and self._is_token(shown.strip()):
                return True
        cookie = self.cookie(scope)
        # Not parsed further: other pages of this machine have the same jar, and any cookies.
        for value in _values(scope, b"cookie"):
            for each in value.split(";"):
                name, _, ticket = each.partition("=")
                if name.strip() == cookie and _equal(ticket.strip(), self.ticket):
                    return True
        return False

    def _is_token(self, shown: str) -> bool:
        return _equal(shown, self.token)

    def _knows(self, host: str, scope: Scope) -> bool:
        name = _name(host)
        server = scope.get("server") or ("",)
        return is_loopback(name) or name in self._names or name == server[0]


class Guard:
    """Lets an ASGI application see only requests that `Access` does not refuse."""

    def __init__(self, app: App, access: Access, refused: Callable[[str], None]) -> None:
        """``refused`` is told why."""
        self._app, self._access, self._refused = app, access, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it, or pass it on, with headers that keep the page to itself."""
        if scope["type"] not in ("http", "websocket"):
            return
        refusal = self._access.refusal(scope)
        if refusal is not None:
            self._refused(refusal.text)
            await _refuse(scope, receive, send, refusal)
        elif self._access.brings_token(scope):
            cookie = f"{self._access.cookie(scope)}={self._access.ticket}; Path=/; HttpOnly"
            # Not a redirect: where a notebook's link led here, a browser would follow it without
            # the cookie. Of itself the page goes on with it, and the token leaves the address.
            headers = {"refresh": "0; url=./", "cache-control": "no-store"}
            headers["set-cookie"] = f"{cookie}; SameSite=Strict"
            await HTMLResponse(_OPENING, 200, headers)(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return sending


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
    else:
        answer = PlainTextResponse(f"{refusal.text}\n", refusal.status, {"connection": "close"})
        await answer(scope, receive, _with_headers(send))


def _equal(shown: str, kept: str) -> bool:
    return hmac.compare_digest(shown.encode(), kept.encode())


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _name(host: str) -> str:
    """The host of ``host:port``, in lower case; IPv6 addresses without brackets."""
    try:
        parts = urlsplit(f"//{host}")
        return "" if "@" in host else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def _authority(origin: str) -> str:
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme in ("http", "https") else ""


def _shown(values: list[str]) -> str:
    return ", ".join(repr(value[:80]) for value in values) or "that it was given"
