from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import RunLock


def test_second_claim_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "cartpole", datetime(2025, 1, 1))
    lock = run.lock()
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        run.lock()
    lock.close()


def test_claim_given_back_can_be_taken_again(tmp_path: Path) -> None:
    first = RunLock(tmp_path / "lock")
    first.close()
    first.close()
    second = RunLock(tmp_path / "lock")
    assert second.note == ""
    second.close()


def test_refused_claim_leaks_no_descriptor(tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "lock")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ConfigError):
            RunLock(tmp_path / "lock")
    assert len(os.listdir("/proc/self/fd")) == before
    lock.close()


def test_file_system_without_locks_is_noted_and_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    lock = RunLock(tmp_path / "lock")
    assert "can't be locked" in lock.note
    lock.close()


def test_missing_directory_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't write"):
        RunLock(tmp_path / "missing" / "lock")


@pytest.mark.process
def test_killed_holder_leaves_the_run_free(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from fast_core.monitor.run_lock import RunLock;"
        "lock = RunLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"process {holder.pid}"):
            RunLock(path)
        holder.kill()
        holder.wait()
    RunLock(path).close()
