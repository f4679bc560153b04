"""What user code forks knows nothing of FastLoop's handlers."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from fast_core.system.forks import STACK_SIGNAL, exit_status

# A process that handles signals as a node does, and of which user code makes a copy. SIGTERM
# reaches the copy as early as it can: before it has begun to run.
COPY = """
import faulthandler, multiprocessing, os, signal, subprocess, sys, threading, time
from fast_core.system import forks

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    forks.take(number, forks.nothing)
faulthandler.enable()
forks.write_stacks()
forks.take_wakeup(os.pipe2(os.O_NONBLOCK)[1])
context = multiprocessing.get_context("fork")

def shown():
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    names = [getattr(signal.getsignal(n), "__name__", signal.getsignal(n)) for n in numbers]
    return [str(name) for name in names] + [signal.set_wakeup_fd(-1), signal.pthread_sigmask(0, ())]

def look(connection):
    connection.send(shown())

def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
"""
PLAIN = "['default_int_handler', '0', '0', -1, set()]"


def run(text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", COPY + text], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("thread", [False, True])
def test_copy_has_the_handlers_of_a_plain_process(thread: bool) -> None:
    text = """
def copy():
    ours, theirs = context.Pipe()
    child = context.Process(target=look, args=(theirs,))
    child.start()
    print(ours.recv())
    child.join()
"""
    assert run(f"{text}\n{'in_a_thread(copy)' if thread else 'copy()'}") == PLAIN


def test_signal_that_comes_at_once_ends_the_copy() -> None:
    text = """
for _ in range(50):
    if (pid := os.fork()) == 0:
        time.sleep(60)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
print(signal.getsignal(signal.SIGTERM) is forks.nothing, signal.pthread_sigmask(0, ()))
"""
    assert run(text) == "True set()"


def test_signal_for_stacks_is_not_the_copys() -> None:
    text = """
if (pid := os.fork()) == 0:
    os.kill(os.getpid(), forks.STACK_SIGNAL)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -forks.STACK_SIGNAL)
"""
    assert run(text) == "True"


def test_signal_for_stacks_is_none_that_batch_systems_send() -> None:
    assert STACK_SIGNAL not in signal.Signals.__members__.values()


def test_parent_is_told_that_cpu_time_runs_out_only_if_it_listens() -> None:
    text = """
def told():
    if (pid := os.fork()) == 0:
        for number in (signal.SIGUSR1, signal.SIGXCPU):
            forks.leave_to_parent(number, None)
        os._exit(0)
    os.waitpid(pid, 0)

told()
heard = []
for number in (signal.SIGUSR1, signal.SIGXCPU):
    signal.signal(number, lambda number, frame: heard.append(signal.Signals(number).name))
told()
print(heard)
"""
    assert run(text) == "['SIGXCPU']"


def test_pool_ends_when_it_is_terminated() -> None:
    text = """
for _ in range(3):
    with context.Pool(2) as pool:
        pool.map(abs, range(4))
print("ended")
"""
    assert run(text) == "ended"


def test_program_ignores_nothing() -> None:
    text = """
print(subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True,
                     restore_signals=True).stdout.split()[1])
"""
    assert int(run(text), 16) & (1 << 1 | 1 << 14 | 1 << 0) == 0


def test_handlers_that_user_code_has_set_stay() -> None:
    text = """
def mine(*_): pass
signal.signal(signal.SIGTERM, mine)
ours, theirs = context.Pipe()
child = context.Process(target=look, args=(theirs,))
child.start()
print(ours.recv()[1])
child.join()
"""
    assert run(text) == "mine"


def test_copy_that_leaves_the_program_reports_nothing() -> None:
    """`sys.exit` of a copy unwinds through what would report the failure of a node."""
    text = """
try:
    if (pid := os.fork()) == 0:
        sys.exit(7)
except BaseException as error:
    forks.leave_if_copy(error)
    print("reported", flush=True)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(text) == "7"


def test_copy_that_can_say_nothing_leaves_all_the_same() -> None:
    text = """
try:
    if (pid := os.fork()) == 0:
        sys.stderr.close()
        raise ValueError
except BaseException as error:
    try:
        forks.leave_if_copy(error)
    except Exception:
        os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(text) == "1"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (SystemExit(None), 0, ""),
        (SystemExit(0), 0, ""),
        (SystemExit(7), 7, ""),
        (SystemExit("no licence"), 1, "no licence\n"),
        (ValueError("bad joint"), 1, "ValueError: bad joint\n"),
    ],
)
def test_leaving_the_program_means_what_it_means_in_python(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, said: str
) -> None:
    assert exit_status(error) == status
    assert capsys.readouterr().err == said
