"""Where launchers are started from, and what else runs there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from fast_core.system.threads import ENVIRONMENT
from tests.forms import slow_but
from tests.process.harness import TOY, Launched, Workplace, surroundings

pytestmark = pytest.mark.process

SCRIPT = """
import sys
from pathlib import Path
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config import file as config_file
from fast_core.launcher.run import launch
Path("began").open("a").write("x")
{before}
config = config_file.load(Path("config.yaml"), sys.argv[1:], algorithm_config_type)
{call}
print("status", status)
"""


def start_script(
    workplace: Workplace, *overrides: str, before: str, call: str = "status = launch(config).status"
) -> Launched:
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump(TOY))
    text = SCRIPT.format(before=before, call=call)
    (home / "script.py").write_text(text)
    return workplace.start(["script.py", *overrides], home=home)


def test_script_without_main_guard_may_launch_again_and_from_a_thread(workplace: Workplace) -> None:
    """PLAT-01: nodes don't run the script again. Its own handlers of signals are given back."""
    before = "import signal, threading\nmine = lambda *_: None\nsignal.signal(signal.SIGTERM, mine)"
    call = """
statuses = []
thread = threading.Thread(target=lambda: statuses.append(launch(config).status))
thread.start()
thread.join()
status = (statuses[0], launch(config).status, signal.getsignal(signal.SIGTERM) is mine)
"""
    launched = start_script(workplace, "stop={env_steps: 300}", before=before, call=call).ends()
    assert launched.screen.strip().endswith("status (0, 0, True)")
    assert (launched.home / "began").read_text() == "x"


def test_error_in_the_launcher_itself_ends_the_run(workplace: Workplace) -> None:
    """ENV-11: what the main program raises leaves no nodes waiting."""
    before = """
from fast_core.launcher.shown.display import Display
calls = []
def fail(self):
    calls.append(0)
    if len(calls) > 10:
        raise RuntimeError("callback failed")
    return 0.0
Display.refresh = fail
"""
    launched = start_script(workplace, before=before).ends(1)
    assert launched.screen.strip().endswith("RuntimeError: callback failed")
    assert launched.screen.count("Traceback") == 1


@pytest.mark.slow
def test_runs_beside_each_other_do_not_meet(workplace: Workplace) -> None:
    """MH-01: three runs of one user and folder; one is stopped, the others finish."""
    home = workplace.folder()
    runs = [
        workplace.launch("stop={time_s: 2}", 'environment.kwargs={"step_s": 0.001}', home=home)
        for _ in range(3)
    ]
    time.sleep(0.5)
    runs[1].await_training()
    runs[1].signal(signal.SIGINT, group=True)
    assert [run.wait() for run in runs] == [0, 130, 0], [run.screen for run in runs]
    assert len(list((home / "runs" / "toy").iterdir())) == 3
    for run in runs:
        run.assert_gone()


def test_run_is_locked_while_it_trains(workplace: Workplace) -> None:
    launched = workplace.toy("", step_s=0.001)
    launched.await_training()
    second = workplace.resume(launched)
    assert second.wait() == 2
    assert f"in use by process {launched.pid}" in second.screen
    launched.signal(signal.SIGINT)
    assert launched.wait() == 130


def start_with_module(workplace: Workplace, text: str, *overrides: str) -> Launched:
    home = workplace.folder()
    (home / "own.py").write_text(text)
    return workplace.launch("environment.modules=[own, toy_envs]", *overrides, home=home)


@pytest.mark.slow
def test_module_that_imports_for_too_long_runs_into_the_start_timeout(workplace: Workplace) -> None:
    text = "import time\ntime.sleep(3600)\n"
    launched = start_with_module(workplace, text, "supervision.start_timeout_s=1").ends(1)
    last = launched.screen.strip().splitlines()[-1]
    assert "the fork server has not finished importing" in last
    assert "own" in last and "within 1 s (supervision.start_timeout_s)" in last


THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True, name="watcher").start()
"""
C_THREAD = """
import zmq
socket = zmq.Context().socket(zmq.PUB)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    slow_but(
        [(C_THREAD, "of C code")],
        [(THREAD, "starts the thread 'watcher'"), (C_THREAD, "of C code")],
    ),
)
def test_module_that_starts_a_thread_before_the_fork_is_refused(
    workplace: Workplace, text: str, words: str
) -> None:
    """ENV-12: forked nodes would not have it, nor be able to take a lock it held."""
    launched = start_with_module(workplace, text)
    assert launched.wait() == 2
    assert not list((launched.home / "runs").glob("*/*"))
    last = launched.screen.splitlines()[-1]
    assert "the module 'own'" in last and words in last and "environment.modules" in last
    launched.assert_gone()


def test_nodes_compute_on_one_thread_and_let_waiting_threads_sleep(workplace: Workplace) -> None:
    """RES-01."""
    launched = workplace.launch(environment={"OMP_NUM_THREADS": "3"})
    launched.await_training()
    environ = Path(f"/proc/{launched.node('env-0')}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=3" in environ  # the user's own
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OPENBLAS_NUM_THREADS"):
        assert f"{name}={ENVIRONMENT[name]}".encode() in environ
    launched.signal(signal.SIGINT)
    launched.wait()
    launched.assert_gone()


def test_module_that_leaves_the_program_is_named(workplace: Workplace) -> None:
    launched = start_with_module(workplace, "raise SystemExit('no main guard')\n").ends(2)
    last = launched.screen.strip().splitlines()[-1]
    assert "the module 'own', which can't be imported: SystemExit: no main guard" in last


def test_node_keeps_nothing_of_its_birth_open(workplace: Workplace) -> None:
    """No wake-up pipe of the fork server and no link to the launcher, only its ZeroMQ socket."""
    launched = workplace.launch()
    launched.await_training()
    pid = launched.node("env-0")
    files = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # one that was open for a moment
            files.append(os.readlink(path))
    assert [name for name in files if name.startswith("pipe:")] == []
    assert len([name for name in files if name.startswith("socket:")]) == 1
    launched.signal(signal.SIGINT)
    assert launched.wait() == 130


@pytest.mark.parametrize("name", slow_but(["TMPDIR"], ["TMPDIR", "XDG_RUNTIME_DIR"]))
def test_long_folder_for_temporary_files_is_avoided(workplace: Workplace, name: str) -> None:
    """A socket file's path may have 107 bytes."""
    folder = workplace.folder() / ("long" * 30)
    folder.mkdir()
    launched = workplace.launch("stop={env_steps: 300}", environment={name: str(folder)}).done()
    assert list(folder.iterdir()) == []
    launched.assert_gone()


def test_runtime_folder_is_used_and_private(workplace: Workplace) -> None:
    folder = workplace.folder()
    launched = workplace.launch(environment={"XDG_RUNTIME_DIR": str(folder)})
    launched.await_training()
    (ours,) = folder.iterdir()
    assert ours.name.startswith("fastloop-")
    assert ours.stat().st_mode & 0o777 == 0o700
    launched.signal(signal.SIGKILL)
    launched.wait()
    launched.assert_gone()
    assert list(folder.iterdir()) == []


def test_closed_pipe_on_the_screen_does_not_stop_training(workplace: Workplace) -> None:
    """``fastloop launch ... | head -n 1``."""
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump(TOY))
    command = f"{sys.executable} -m fast_core.tools.cli launch config.yaml stop.env_steps=600"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -n 1"],
        cwd=home,
        capture_output=True,
        env=surroundings(),
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b""), done
    assert done.stdout.count(b"\n") == 1
    (run,) = (home / "runs" / "toy").iterdir()
    assert "finished" in (run / "events.jsonl").read_text()
