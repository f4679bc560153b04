"""What a second terminal does to a running run."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from fast_core.system.process_state import is_stopped
from tests.forms import slow_but
from tests.process.harness import (
    FIGURES,
    PATIENCE_S,
    Launched,
    Workplace,
    eventually,
    read_lines,
    read_process,
    tracebacks,
)
from tests.process.test_remains import kill_everything

pytestmark = pytest.mark.process


def said(workplace: Workplace, launched: Launched, *arguments: str, status: int = 0) -> str:
    """What a command of `fastloop` says in the same folder, once it has ended so."""
    done = workplace.fastloop(arguments, launched.home)
    assert done.wait() == status, done.screen
    return done.screen.strip()


@pytest.mark.parametrize("mode", slow_but(["process"], ["process", "inline"]))
def test_run_is_listed_saved_and_stopped_from_another_terminal(
    workplace: Workplace, mode: str
) -> None:
    launched = workplace.toy("", f"mode={mode}", step_s=0.001)
    launched.await_training()
    listening = (launched.run / "control.sock").stat()
    assert stat.S_ISSOCK(listening.st_mode)
    assert stat.S_IMODE(listening.st_mode) == 0o600

    rows = json.loads(said(workplace, launched, "ps", "--json"))  # others may go on, too
    (row,) = [row for row in rows if row["path"] == str(launched.run)]
    assert row["pid"] == launched.pid
    assert row["state"] == "training"
    assert row["degree"] == 0

    run = str(launched.run.relative_to(launched.home))
    os.kill(launched.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(launched.pid), "stopped")
    lines = [line.split() for line in said(workplace, launched, "ps").splitlines()]
    assert [run, "stopped", str(launched.pid)] in [line[:3] for line in lines]
    assert f"`kill -CONT {launched.pid}`" in said(workplace, launched, "stop", run, status=2)
    os.kill(launched.pid, signal.SIGCONT)

    saved = Path(said(workplace, launched, "save", run).split()[0])
    assert (launched.home / saved / "manifest.json").exists()

    stopped = said(workplace, launched, "stop", run)
    assert f"{run} has ended: fastloop stop; `fastloop resume {run}` goes on" in stopped
    assert launched.wait() == 130
    assert tracebacks(launched) == 0
    launched.assert_gone()
    assert not os.path.lexists(launched.run / "control.sock")
    assert len(list((launched.run / "checkpoints").glob("*/manifest.json"))) == 2


def test_run_survives_a_deeply_nested_line_at_its_control_socket(workplace: Workplace) -> None:
    launched = workplace.toy("", FIGURES, step_s=0.001)
    launched.await_update()
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(PATIENCE_S)
        link.connect(os.readlink(launched.run / "control.sock"))
        link.sendall(b'{"x":' + b"[" * 4000 + b"\n")
        assert b"nested too deeply" in link.recv(4096)
    said(workplace, launched, "stop", str(launched.run.relative_to(launched.home)))
    assert launched.wait() == 130, launched.screen
    assert tracebacks(launched) == 0
    assert list((launched.run / "checkpoints").glob("*/manifest.json"))


@pytest.mark.slow
def test_socket_of_a_dead_run_says_so_and_how_to_go_on(workplace: Workplace) -> None:
    launched = workplace.toy("", step_s=0.001)
    launched.await_training()
    run = str(launched.run.relative_to(launched.home))
    said(workplace, launched, "save", run)
    kill_everything(launched)
    assert os.path.lexists(launched.run / "control.sock")
    for what in ("stop", "save"):
        text = said(workplace, launched, what, run, status=2)
        assert "was killed" in text
        assert f"`fastloop resume {run}` goes on with it" in text
    assert launched.run.name not in said(workplace, launched, "ps")
    resumed = workplace.resume(launched)
    eventually(lambda: any(e["what"] == "resume" for e in resumed.events()), "the resume")
    said(workplace, launched, "stop", run)
    assert resumed.wait() == 130, resumed.screen
    assert "does not run" in said(workplace, launched, "stop", run, status=2)
    launched.assert_gone()


@pytest.mark.slow
def test_env_nodes_come_and_go_without_a_row_lost_and_the_checkpoint_resumes(
    workplace: Workplace,
) -> None:
    launched = workplace.toy("daemon", "rollout.shards=4", step_s=0.001)
    launched.await_training()
    run = str(launched.run.relative_to(launched.home))
    assert said(workplace, launched, "scale", run, "env=+2") == f"{run}: it has 4 env nodes"
    added = launched.node("env-3")
    assert said(workplace, launched, "scale", run, "env=1") == f"{run}: it has 1 env node"
    eventually(lambda: read_process(added) is None, "the retired node is gone")
    refused = said(workplace, launched, "scale", run, "env=5", status=2)
    assert "from 1 to 4 env nodes, as it has 4 shards (rollout.shards)" in refused
    assert said(workplace, launched, "scale", run, "env=2") == f"{run}: it has 2 env nodes"
    said(workplace, launched, "stop", run)
    launched.ends(130)
    assert not (launched.run / "crash.txt").exists()
    rows = read_lines(launched.run / "metrics.jsonl")
    assert rows[-1]["values"]["scheduler/env_nodes"] == 2
    assert rows[-1]["values"]["scheduler/rows_dropped"] == 0
    workplace.resume(launched, f"stop={{env_steps: {rows[-1]['env_steps'] + 500}}}").done()
