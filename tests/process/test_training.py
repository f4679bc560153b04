"""`fast_core.train` where people call it: scripts without a guard, threads, asyncio, notebooks."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

from fast_core.system.forks import WARNINGS
from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, signal_everybody

pytestmark = pytest.mark.process

# An environment that only this script has; a step costs nothing, and it fails when it is told to.
MINE = """
import functools, os, sys, threading
import gymnasium, numpy as np
import fast_core
from fast_core import ConfigError, Run, RunFailed, RunInterrupted, train

class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length, fails=False):
        self.length, self.fails, self.count = length, fails, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.count += 1
        if self.fails and self.count == 40:
            raise ZeroDivisionError("what the environment raised")
        return np.zeros(3, np.float32), 1.0, self.count == self.length, False, {}

BASE = {
    "name": "mine",
    "environment": {"id": Mine, "kwargs": {"length": 10}},
    "rollout": {"shards": 2, "envs_per_shard": 2, "steps": 8},
    "algorithm": {"name": "ppo", "hidden_sizes": (4,), "minibatch_size": 16, "epochs": 1},
    "evaluation": {"episodes": 3, "environments": {"long": {"kwargs": {"length": 12}}}},
    "metrics": {"tensorboard": False, "interval_s": 0.05},
    "stop": {"env_steps": 256},
}
"""


def start(workplace: Workplace, text: str, *arguments: str) -> Launched:
    home = workplace.folder()
    (home / "script.py").write_text(MINE + text)
    return workplace.start(["script.py", *arguments], home=home)


def result(launched: Launched, status: int = 0) -> dict[str, object]:
    """What the script wrote at its end."""
    launched.ends(status)
    found: dict[str, object] = json.loads((launched.home / "result.json").read_text())
    return found


@pytest.mark.slow
def test_class_of_a_script_is_evaluated_and_resumed_by_command(workplace: Workplace) -> None:
    text = """
import json
first = train(BASE)
second = train({**BASE, "environment": functools.partial(Mine, 7), "evaluation": {}})
third = first.run.resume({"stop.env_steps": 512})
fourth = train(first.run.config, {"name": "again"}, resume=first.run)
json.dump({
    "first": [first.reason, first.evaluation.mean, first.best.version, first.env_steps],
    "second": [second.best.mean, str(second.run.directory)],
    "third": [third.env_steps, third.run.directory == first.run.directory],
    "fourth": [fourth.env_steps, fourth.run.directory.parent.name],
    "columns": list(map(int, first.run.evaluations["env_steps"])),
    "names": [name for name in first.run.evaluations if name.endswith("return_mean")],
    "run": str(first.run.directory),
}, open("result.json", "w"))
"""
    launched = start(workplace, text)
    found = result(launched)
    assert found["first"] == ["finished", 10, 16, 256]
    assert found["second"][0] == 7  # type: ignore[index]
    assert found["third"] == [512, True]
    assert found["fourth"] == [512, "again"]
    assert found["columns"] == [256, 512]
    # by command, in another folder, also after the run has moved
    elsewhere = workplace.folder()
    moved = elsewhere / "moved"
    shutil.move(str(found["run"]), moved)
    evaluated = workplace.fastloop(["eval", str(moved), "--episodes", "2"], elsewhere).done()
    assert json.loads(evaluated.screen)["return_mean"] == 10
    workplace.fastloop(["resume", str(moved), "stop.env_steps=768"], elsewhere).done()
    repeated = workplace.fastloop(["launch", str(moved / "config.yaml")], elsewhere).done()
    assert (repeated.run / "environment.pkl").is_file()


@pytest.mark.slow
def test_module_beside_a_script_is_found_by_commands_from_anywhere(workplace: Workplace) -> None:
    home, elsewhere = workplace.folder(), workplace.folder()
    scripts = home / "scripts"
    scripts.mkdir()
    (scripts / "mine_here.py").write_text(MINE)
    (scripts / "script.py").write_text("""
import mine_here
base = {**mine_here.BASE, "environment": {"id": "mine_here:Mine", "kwargs": {"length": 10}}}
print("run", mine_here.train({**base, "evaluation": {}}, mode="inline").run.directory)
""")
    trained = workplace.start(["scripts/script.py"], home=home).done()
    run = trained.screen.split("run ")[-1].strip()
    for command in (["eval", run, "--episodes", "2"], ["resume", run, "stop.env_steps=512"]):
        workplace.fastloop(command, elsewhere).done()


@pytest.mark.slow
def test_process_is_given_back_and_errors_are_exceptions(workplace: Workplace) -> None:
    text = """
import asyncio, json, logging, random, signal, warnings
from concurrent.futures import ThreadPoolExecutor

def state():
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "variables": dict(os.environ),
        "handlers": [str(signal.getsignal(n)) for n in (2, 15, 1)],
        "wakeup": signal.set_wakeup_fd(-1),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "logging": [str(h) for h in logging.getLogger().handlers] + [str(logging.root.level)],
        "generators": [str(random.getstate()), str(np.random.get_state())],
        "switch": sys.getswitchinterval(),
        "children": open(f"/proc/self/task/{os.getpid()}/children").read(),
    }

before = state()
train(BASE)
train(BASE, mode="inline")
with ThreadPoolExecutor(2) as pool:
    both = list(pool.map(lambda seed: train(BASE, {"seed": seed}).reason, (1, 2)))
both.append(asyncio.run(asyncio.to_thread(train, BASE)).reason)

failures = []
for mode in ("process", "inline"):
    try:
        train(BASE, {"environment.kwargs": {"length": 50, "fails": True}}, mode=mode)
    except RunFailed as error:
        failures.append([error.node[:4], error.error, error.traceback, str(error)])
        assert Run(error.directory).crash == str(error)

after = state()
changed = {key: [before[key], after[key]] for key in before if before[key] != after[key]}

refused = []
def second():
    try:
        train(BASE, mode="inline")
    except ConfigError as error:
        refused.append(str(error))
from fast_core.launcher import lending
with lending.process_lent():
    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
json.dump({"both": both, "failures": failures, "changed": changed, "refused": refused},
          open("result.json", "w"))
"""
    launched = start(workplace, text)
    found = result(launched)
    assert found["changed"] == {}
    assert found["both"] == ["finished"] * 3
    for node, error, traceback, report in found["failures"]:  # type: ignore[attr-defined]
        assert node == "env-"
        assert "what the environment raised" in error
        assert "script.py" in traceback and 'ZeroDivisionError("what' in traceback
        assert report.strip().endswith("ZeroDivisionError: what the environment raised")
    assert len(found["failures"]) == 2  # type: ignore[arg-type]
    (refusal,) = found["refused"]  # type: ignore[misc]
    assert "mode inline goes on in this process" in refusal
    # the exception alone carries the report
    assert "First cause" not in launched.screen


INTERRUPTED = """
import json
config = {**BASE, "stop": {"time_s": 60}}
try:
    train(config, mode=sys.argv[1])
except RunInterrupted as error:
    found = error.result
    run = Run(found.run.directory)
    json.dump({
        "reason": found.reason,
        "env_steps": [found.env_steps, run.checkpoints[-1].env_steps],
        "text": str(error),
        "next": train(BASE).reason,
    }, open("result.json", "w"))
"""


@pytest.mark.parametrize("mode", slow_but(["process"], ["process", "inline"]))
def test_ctrl_c_raises_after_the_run_has_ended_in_order(workplace: Workplace, mode: str) -> None:
    launched = start(workplace, INTERRUPTED, mode)
    launched.await_update()
    launched.signal(signal.SIGINT)
    found = result(launched)
    assert found["reason"] == "interrupted"
    steps, saved = found["env_steps"]  # type: ignore[misc]
    assert steps == saved > 0
    assert "resume()" in str(found["text"])
    assert found["next"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_ends_the_run_in_order_and_then_the_program(
    workplace: Workplace, number: signal.Signals
) -> None:
    text = "train({**BASE, 'stop': {'time_s': 60}})\nprint('went on')"
    launched = start(workplace, text)
    launched.await_update()
    launched.signal(number)
    launched.ends(128 + number)
    assert list((launched.run / "checkpoints").iterdir())
    assert "went on" not in launched.screen


@pytest.mark.parametrize("mode", slow_but(["inline"], ["inline", "process"]))
def test_what_a_callback_raises_is_the_cause(workplace: Workplace, mode: str) -> None:
    """So that who searches for settings can tell a trial that was pruned from one that failed."""
    text = """
import json

class Pruned(Exception):
    pass

class Pruning:
    def __init__(self, method, error):
        setattr(self, method, lambda record, run: (_ for _ in ()).throw(error))

class Making(Pruning):
    def state_dict(self):
        raise self.error

    def load_state_dict(self, state):
        pass

found = []
def trial(method):
    error = Pruned(method)
    try:
        train(BASE, callbacks=[Pruning(method, error)], mode=sys.argv[1])
    except RunFailed as failed:
        found.append(failed.__cause__ is error)

for method in ("on_start", "on_evaluation", "on_end"):
    trial(method)
other = threading.Thread(target=trial, args=("on_metrics",))
other.start()
other.join()

making = Making("on_end", None)
making.error = Pruned("made")
try:
    train(BASE, callbacks=[making], mode=sys.argv[1])
except ConfigError as refused:
    found.append(refused.__cause__ is making.error)
json.dump(found, open("result.json", "w"))
"""
    assert result(start(workplace, text, mode)) == [True] * 5  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("number", slow_but([signal.SIGUSR2], WARNINGS))
def test_program_that_handles_a_batch_systems_warning_decides_what_follows(
    workplace: Workplace, number: signal.Signals
) -> None:
    text = """
import json, signal
heard = []
signal.signal(int(sys.argv[1]), lambda number, frame: heard.append(number))

class Ending:
    def on_metrics(self, metrics, run):
        if heard:
            run.stop("asked for by the batch system")

found = train({**BASE, "stop": {"time_s": 60}}, callbacks=[Ending()])
json.dump([found.reason, found.message, len(found.run.checkpoints)], open("result.json", "w"))
"""
    launched = start(workplace, text, str(int(number)))
    launched.await_update()
    signal_everybody(launched, number)
    reason, message, checkpoints = result(launched)
    assert (reason, checkpoints) == ("finished", 1)
    assert message.startswith("asked for by the batch system")
    assert "watchdog" not in launched.screen


@pytest.mark.slow
def test_run_in_a_thread_goes_on_after_the_main_thread_has_ended(workplace: Workplace) -> None:
    """Python waits for the thread; what starts threads of its own in pools would fail now."""
    text = """
import json, pathlib, time
def work():
    found = train({**BASE, "stop": {"time_s": 1.5}})
    ended = not threading.main_thread().is_alive()
    json.dump([ended, len(found.run.checkpoints)], open("result.json", "w"))
threading.Thread(target=work).start()
while not list(pathlib.Path("runs").glob("*/*/metrics.jsonl")):
    time.sleep(0.01)
"""
    assert result(start(workplace, text)) == [True, 1]


NOTEBOOK = """
import json, re, sys, threading, time
import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

manager = KernelManager()
manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
cells = json.load(open("cells.json"))
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
client = NotebookClient(book, timeout=60, allow_errors=True, km=manager)

def interrupt():
    while not re.search("env steps [1-9]", json.dumps(book.cells[2].outputs)):
        time.sleep(0.05)  # before the first step there is nothing to save
    manager.interrupt_kernel()

threading.Thread(target=interrupt, daemon=True).start()
client.execute()
json.dump([cell.outputs for cell in book.cells], open("result.json", "w"))
"""


def test_notebook_trains_interrupts_and_goes_on(workplace: Workplace) -> None:
    """PLAT-02, with a real kernel: the environment's class stands in a cell."""
    cells = [
        MINE,
        "result = train(BASE)\nresult",
        "train({**BASE, 'stop': {'time_s': 60}})",
        "run = Run('runs/mine')\nprint(run.checkpoints[-1].env_steps > 0)",
        "train(BASE, {'environment.kwargs': {'length': 50, 'fails': True}})",
        "print('alive', train(BASE, mode='inline').reason)",
    ]
    home = workplace.folder()
    (home / "cells.json").write_text(json.dumps(cells))
    (home / "notebook.py").write_text(NOTEBOOK)
    environment = {"JUPYTER_RUNTIME_DIR": str(home), "IPYTHONDIR": str(home / "ipython")}
    workplace.start(["notebook.py"], home=home, environment=environment).ends(0, within_s=90)
    outputs = json.loads((home / "result.json").read_text())
    shown = [[output["output_type"] for output in cell] for cell in outputs]
    assert shown[0] == []
    assert "error" not in shown[1] and shown[1].count("display_data") <= 1
    assert outputs[1][-1]["data"]["text/plain"].startswith("finished")
    assert outputs[2][-1]["ename"] == "RunInterrupted"
    assert outputs[3][0].get("text") == "True\n", outputs[2:4]
    assert outputs[4][-1]["ename"] == "RunFailed"
    failed = "\n".join(outputs[4][-1]["traceback"])
    assert 'raise ZeroDivisionError("what the environment raised")' in failed, "the cell's line"
    assert "alive finished" in outputs[5][-1]["text"]
