"""Who may see the page: who shows its token, which is made here if nobody names one."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from importlib.util import find_spec
from typing import TextIO

from fast_core.config import DashboardConfig
from fast_core.errors import ConfigError
from fast_core.system.extras import to_install

TOKEN = "FASTLOOP_DASHBOARD_TOKEN"
LEAST_TOKEN = 16
# What the page's server imports, by what it is installed as.
_NEEDED = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "websockets": "websockets",
    "plotly": "plotly",
    "PIL": "pillow",
}


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which no other machine reaches."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return bool(host) and not any(letter in ":/@[]?#" or letter.isspace() for letter in host)


def token() -> str:
    """What browsers have to show by the environment variable; empty where it says nothing."""
    return os.environ.get(TOKEN, "")


def made_token(before: str = "") -> str:
    """A token to be shown where the environment variable says none; empty where it does.

    ``before`` is what the page had until now, if there was one: browsers that are open know it.
    """
    return "" if token() else before or secrets.token_urlsafe(24)


def with_token(url: str, made: str) -> str:
    """The address that lets a browser in, with the token that was made for the page.

    One that the environment variable says is shown nowhere: then it says what has to be added.
    """
    return f"{url}?token={made or f'... (what {TOKEN} says)'}"


def others_read(stream: TextIO | None) -> bool:
    """Whether what is written there ends in a file that other users of the machine may read."""
    try:
        mode = 0 if stream is None else os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # it is none of the system's, as in a notebook
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))


def check_page(config: DashboardConfig) -> None:
    """See whether a page could be served, before anything starts.

    Raises:
        ConfigError: A package is missing, others could reach the page and need no token, or the
            token or a name can't be one.
    """
    lacking = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if lacking:
        raise ConfigError(
            f"the page (dashboard.enabled) needs {', '.join(lacking)}: run "
            f"{to_install('dashboard')}, or go without it (dashboard.enabled=false)."
        )
    if token() and len(token()) < LEAST_TOKEN:
        raise ConfigError(
            f"the environment variable {TOKEN} must have at least {LEAST_TOKEN} characters, so "
            f"that it can't be guessed; it has {len(token())}. `openssl rand -hex 16` makes one."
        )
    if not all(33 <= ord(letter) <= 126 for letter in token()):
        raise ConfigError(
            f"the environment variable {TOKEN} may have ASCII letters, digits and signs only, and "
            "no spaces, so that browsers can send it. `openssl rand -hex 16` makes one."
        )
    for name in config.hosts:
        if not _is_name(name):
            raise ConfigError(
                "dashboard.hosts must be names or addresses alone, such as box.example, without "
                f"http:// and without a port; got {name!r}."
            )
    if not is_loopback(config.host) and not token():
        raise ConfigError(
            f"dashboard.host {config.host!r} can be reached from other machines, so it needs a "
            f"token: set the environment variable {TOKEN} (`openssl rand -hex 16` makes one). Or "
            "leave dashboard.host at 127.0.0.1 and reach it through "
            "`ssh -L 8420:127.0.0.1:8420 MACHINE`."
        )
