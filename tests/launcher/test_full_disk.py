"""A disk that takes nothing: a run that can't begin says so and leaves nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from fast_core.errors import ConfigError, RunFailed
from fast_core.launcher import run
from fast_core.launcher.processes.node_process import _redirect_output
from tests.nodes.stage import make_config

# The first bytes that a new run writes, and then, each of its own kind: a log, its configuration.
POINTS = ["os.pwrite", "fast_core.launcher.run._mode", "fast_core.launcher.session._verdict"]


@pytest.mark.parametrize("point", POINTS)
def test_run_that_can_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    config = make_config(mode="inline", directory=str(tmp_path / "runs"))
    monkeypatch.setattr(point, full)
    with pytest.raises(ConfigError, match=r"can't .*writ.*: No space left on device\."):
        run.launch(config)
    assert [*tmp_path.iterdir()] == []


def test_run_that_was_trained_is_kept_whatever_its_disk_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(session: Any, *_: object) -> NoReturn:
        session.run.metrics.write_text("{}\n")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("fast_core.launcher.run.carry_out", full)
    with pytest.raises(RunFailed, match="Input/output error"):
        run.launch(msgspec.structs.replace(make_config(), directory=str(tmp_path)))
    assert [*tmp_path.glob("*/*/metrics.jsonl")]


def test_node_whose_log_can_not_be_made_lives_without(tmp_path: Path) -> None:
    """What it prints stays with the fork server's."""
    pid = os.fork()
    if pid == 0:
        _redirect_output(tmp_path / "logs" / "env-0.log")
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
