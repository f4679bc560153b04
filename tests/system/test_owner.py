"""Whom something belongs to, and what proves that it is dead."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fast_core.system import owner
from fast_core.system.owner import Owner, is_dead, this_process


@pytest.fixture
def me() -> Owner:
    found = this_process()
    assert found is not None
    return found


@pytest.fixture
def gone() -> Iterator[int]:
    """A process that has ended and was not reaped yet."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    yield pid
    os.waitpid(pid, 0)


def test_text_is_read_back(me: Owner) -> None:
    assert Owner.parse(str(me)) == me


@pytest.mark.parametrize(
    "text", ["", "unknown", "a b c d e", "a b c 1", "a b c 1 -2", "a b c 1 2 3"]
)
def test_other_text_names_nobody(text: str) -> None:
    assert Owner.parse(text) is None


def test_living_process_is_not_dead(me: Owner) -> None:
    assert not is_dead(me, me)


def test_same_number_started_at_another_time_is_another_process(me: Owner) -> None:
    assert is_dead(me._replace(started=me.started - 1), me)


def test_process_of_an_earlier_start_of_the_machine_is_dead(me: Owner) -> None:
    assert is_dead(me._replace(boot="earlier"), me)


def test_nobody_is_dead_who_may_live_where_nobody_looks(me: Owner) -> None:
    """A container counts its own processes, and folders are shared between machines."""
    elsewhere = me._replace(pid=2**30)
    assert is_dead(elsewhere, me)
    assert not is_dead(elsewhere._replace(spaces="1.2"), me)
    assert not is_dead(elsewhere._replace(machine="other/1", boot="other"), me)


def test_process_that_nobody_has_reaped_is_dead(me: Owner, gone: int) -> None:
    assert is_dead(me._replace(pid=gone), me)


def test_process_that_is_hidden_is_not_dead(me: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """``/proc`` mounted with ``hidepid`` shows none that the user could not trace."""
    read = os.path.exists

    def hidden(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(owner, "_read", hidden)
    monkeypatch.setattr(os.path, "exists", lambda path: path != f"/proc/{me.pid}" and read(path))
    assert not is_dead(me, me)
    assert is_dead(me._replace(pid=2**30), me), "there is none"


def test_what_cant_be_read_proves_nothing(me: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str) -> str:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(owner, "_read", fails)
    assert not is_dead(me._replace(started=0), me)
    assert this_process() is None
