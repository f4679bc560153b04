"""`fastloop watch`: the page of a run that goes on or has ended, or of all runs of a folder."""

from __future__ import annotations

import contextlib
import html
import os
import select
import shlex
import socket
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fast_core.config import DashboardConfig
from fast_core.errors import ConfigError
from fast_core.monitor.control_socket import short
from fast_core.monitor.run_directory import SWEEP_FILE, RunDirectory, runs_in
from fast_core.monitor.run_lock import holder
from fast_core.monitor.run_state import find_runs
from fast_core.monitor.screens.access import TOKEN, check_page, made_token, others_read, token
from fast_core.monitor.screens.served import Served, now_served
from fast_core.system.interrupts import Interrupts
from fast_core.system.surroundings import expanded, write_result
from fast_core.system.text import harmless

if TYPE_CHECKING:
    from fast_core.dashboard.files import RunOnFile
    from fast_core.dashboard.server import Page
    from fast_core.policy.policy import Policy

LOOK_S = 1.0
OPENS_S = 5.0  # that a browser takes to begin


def watch(path: Path, *, host: str, port: int | None, opens: bool, plays: bool = False) -> int:
    """Show the run at a path, or all runs of a folder; until Ctrl-C.

    With ``plays`` the policy of a run that has ended plays there.

    Raises:
        ConfigError: There is neither, or a page can't be served.
    """
    folder = folder_at(path)
    if folder is None:
        return watch_run(path, host=host, port=port, opens=opens, plays=plays)
    if plays:
        raise ConfigError(f"--play shows the policy of one run; {str(path)!r} is a folder of runs.")
    return watch_folder(folder, host=host, port=port, opens=opens)


def folder_at(path: Path) -> Path | None:
    """The folder whose runs a path means; None where it means one run, or nothing.

    A run is a directory with a configuration, as for `RunDirectory.open`, which also takes
    ``<directory>/<name>`` for the newest run there: here that is a run where there is just one,
    and no sweep.
    """
    given = expanded(path, "the run")
    if not given.is_dir() or (given / "config.yaml").is_file():
        return None
    alone = len(runs_in(given)) == 1 and not (given / SWEEP_FILE).is_file()
    return None if alone else given


def watch_folder(folder: Path, *, host: str, port: int | None, opens: bool) -> int:
    """Serve the page of all runs of a folder, those to come too; until Ctrl-C.

    Raises:
        ConfigError: The page can't be served.
    """
    config = _page(host, port)
    # here, because it imports what the page is served with
    from fast_core.dashboard.folder_page import FolderPage

    found = sum(1 for _ in find_runs(folder))
    told = f"{found} run{'' if found == 1 else 's'} in {folder}"
    return _serve(FolderPage(folder, _warn), config, told, opens=opens)


def watch_run(path: Path, *, host: str, port: int | None, opens: bool, plays: bool = False) -> int:
    """Print where the page of a run is, and serve it where the run does not; until Ctrl-C.

    Raises:
        ConfigError: There is no run, or a page can't be served.
    """
    run = RunDirectory.open(path)
    served = None if plays else now_served(run.dashboard)
    if served is not None and holder(run.lock_file) is not None and _answers(served):
        write_result(f"{short(run.path)} serves its page itself: {served.address}")
        if opens:
            with shown(served):
                time.sleep(OPENS_S)
        return 0
    config, policy = _page(host, port), _policy(run) if plays else None
    # here, because they import what the page is served with
    from fast_core.dashboard.files import RunOnFile
    from fast_core.dashboard.server import RunPage

    source = RunOnFile(run) if policy is None else _played(run, policy)
    told = f"{short(run.path)} {'goes on' if source.facts.running else 'has ended'}\n"
    told += source.hello().why_no_frames or "its policy plays while somebody looks"
    return _serve(RunPage(source, _warn), config, told, source.check, opens=opens)


def _serve(
    page: Page, config: DashboardConfig, told: str, *checks: Callable[[], object], opens: bool
) -> int:
    """Serve a page, and say so; until Ctrl-C."""
    from fast_core.dashboard.server import PageServer
    from fast_core.dashboard.serving import listen

    with Interrupts() as interrupts:
        listening, made = listen(config.host, config.port), made_token()
        server = PageServer(page, listening, config.host, token=token() or made)
        try:
            write_result(told)
            served = Served(server.url, server.port, os.getpid(), made)
            stay(served, config.port, (server.check, *checks), interrupts, opens=opens)
        finally:
            server.close("it is not watched any more")
    return 0


def _policy(run: RunDirectory) -> Policy:
    """The policy of a run that has ended.

    Raises:
        FastLoopError: It goes on, or has none.
    """
    if holder(run.lock_file) is not None:
        raise ConfigError(
            f"--play is for a run that has ended, and {short(run.path)} goes on. Leave it out, or "
            f"end the run (`fastloop stop {shlex.quote(short(run.path))}`)."
        )
    # here, because it imports environments, as what follows
    from fast_core.tools.evaluate import load_as_in_a_node

    return load_as_in_a_node(run.path, None)


def _played(run: RunDirectory, policy: Policy) -> RunOnFile:
    from fast_core.dashboard.played import PlayedRun
    from fast_core.policy.evaluation import setting_of

    return PlayedRun(run, policy, setting_of(policy))


def stay(
    served: Served,
    port: int,
    checks: Sequence[Callable[[], object]],
    interrupts: Interrupts,
    *,
    opens: bool,
) -> None:
    """Say where a page is served, and come back after Ctrl-C.

    Args:
        served: Where it is.
        port: The port that was asked for.
        checks: Called now and then; one raises if the page is not served any more.
        interrupts: Signals that end it.
        opens: Whether a browser is to show it.
    """
    if port not in (0, served.port):
        write_result(f"port {port} is in use")
    if served.token and others_read(sys.stdout):
        _warn(f"other users can read the token here: `chmod go-r` this file, or set {TOKEN}")
    write_result(f"the page is at {served.address} until Ctrl-C")
    sys.stdout.flush()
    with shown(served) if opens else contextlib.nullcontext():
        while not interrupts.count:
            select.select([interrupts.fileno()], [], [], LOOK_S)
            for check in checks:
                check()


@contextlib.contextmanager
def shown(served: Served) -> Iterator[None]:
    """Open a page in a browser, which may have to read what lets it in until the block ends.

    A browser's command line is everybody's to read, so that the token stands in a file.
    """
    with tempfile.NamedTemporaryFile("w", prefix="fastloop-page-", suffix=".html") as file:
        where = served.url
        if served.token:
            address = html.escape(served.address)
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n')
            file.flush()
            where = Path(file.name).as_uri()
        if not webbrowser.open(where):
            write_result("no browser could be opened here")
        yield


def _page(host: str, port: int | None) -> DashboardConfig:
    page = DashboardConfig(host=host) if port is None else DashboardConfig(host=host, port=port)
    check_page(page)
    return page


def _answers(served: Served) -> bool:
    """Whether somebody listens where a page is said to be."""
    try:
        host = urlsplit(served.url).hostname or ""
        with socket.create_connection((host, served.port), LOOK_S):
            return True
    except (OSError, ValueError):
        return False


def _warn(text: str) -> None:
    print(f"fastloop: {harmless(text)}", file=sys.stderr)
