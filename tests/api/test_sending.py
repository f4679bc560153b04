"""How an environment that is a Python object is sent, and what is said of one that can't be."""

from __future__ import annotations

import copy
import functools
import linecache
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from fast_core.api import sending
from fast_core.envs import pickled
from fast_core.errors import ConfigError
from tests.envs.toy import Counter

LOCK = threading.Lock()


class Locked(CartPoleEnv):
    def step(self, action: Any) -> Any:
        with LOCK:
            return super().step(action)


def uses_a_global() -> gymnasium.Env[Any, Any]:
    return Locked()


def of_script(code: str) -> dict[str, Any]:
    """What stands in the main module of a program after ``code``."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<cell>", "exec"), names)
    return names


CELL = """
import gymnasium
GAIN = 3
class Cell(gymnasium.Env):
    def gain(self):
        return GAIN * helper()
    def fail(self):
        raise ValueError("in a cell")
def helper():
    return 2
"""


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        (Counter, "tests.envs.toy:Counter"),
        (CartPoleEnv, "gymnasium.envs.classic_control.cartpole:CartPoleEnv"),
        (uses_a_global, f"{__name__}:uses_a_global"),
        (lambda: Counter(), None),
        (functools.partial(Counter, 3), None),
        (Counter().step, None),
    ],
)
def test_what_processes_can_import_has_a_name(maker: Any, name: str | None) -> None:
    assert sending.name_of(maker) == name


def test_class_that_was_replaced_or_lies_in_no_file_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = types.ModuleType("made_by_hand")
    exec("class Own:\n    pass", made.__dict__)
    monkeypatch.setitem(sys.modules, "made_by_hand", made)
    assert sending.name_of(made.Own) is None
    copy = type("Counter", (Counter,), {"__module__": Counter.__module__})
    assert sending.name_of(copy) is None
    # but it can be sent, with what it needs of its module
    assert pickled.loads(sending.pickled(made.Own))().__class__.__name__ == "Own"


@pytest.mark.parametrize(
    ("maker", "label"),
    [
        (Counter, "Counter"),
        (lambda: Counter(), "lambda"),
        (functools.partial(functools.partial(Counter, 3), end="x"), "Counter"),
    ],
)
def test_label_is_fit_for_an_id(maker: Any, label: str) -> None:
    assert sending.label_of(maker) == label


def test_code_of_a_cell_works_elsewhere_with_its_globals_and_its_lines(tmp_path: Path) -> None:
    linecache.cache["<cell>"] = (len(CELL), None, CELL.splitlines(keepends=True), "<cell>")
    data = sending.pickled(of_script(CELL)["Cell"])
    del linecache.cache["<cell>"]
    (tmp_path / "it.pkl").write_bytes(data)
    code = (
        "import traceback; from fast_core.envs import pickled\n"
        "made = pickled.load('it.pkl')(); print(made.gain())\n"
        "try: made.fail()\nexcept ValueError: print(traceback.format_exc())"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("6\n"), done.stderr
    assert 'File "<cell>", line 8, in fail\n    raise ValueError("in a cell")' in done.stdout


def test_gymnasium_does_not_copy_what_a_partial_holds() -> None:
    made = pickled.loads(sending.pickled(functools.partial(dict, table=[])))
    spec = gymnasium.envs.registration.EnvSpec(id="x", entry_point=made)
    assert copy.deepcopy(spec).entry_point is made  # as gymnasium.make does


@pytest.mark.parametrize(
    ("maker", "named"),
    [
        (lambda: Locked(step=LOCK), "the global 'LOCK' (a lock)"),
        (functools.partial(Counter, end=LOCK), "the argument 'end' (a lock)"),
        (functools.partial(Counter, [{"key": LOCK}]), "(a list) -> item 0 (a dict) -> the entry"),
        ((lambda lock: lambda: lock)(LOCK), "the variable 'lock' (a lock)"),
        ((lambda lock=LOCK: lock), "a default value (a lock)"),
    ],
)
def test_what_cannot_be_sent_is_named(maker: Any, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sending.pickled(maker)
    message = str(raised.value)
    assert named in message and "cannot pickle '_thread.lock' object" in message, message
    assert "inside the function or __init__" in message


def test_advice_for_what_cannot_be_sent_works() -> None:
    names = of_script(
        "import threading\nclass Own:\n    def __init__(self, lock): self.lock = lock"
    )
    own = names["Own"]  # alone: what executes a script puts all builtins into its names
    with pytest.raises(ConfigError):
        sending.pickled(functools.partial(own, LOCK))
    made = pickled.loads(sending.pickled(lambda: own(threading.Lock())))
    assert made().lock.acquire(blocking=False)


def test_environment_that_is_made_already_is_refused() -> None:
    env = gymnasium.make("CartPole-v1")
    assert sending.is_object(env)
    with pytest.raises(ConfigError, match=r"got one that is made, CartPoleEnv.*id 'CartPole-v1'"):
        sending.checked_maker(env)
    env.close()


def test_file_that_is_not_there_or_no_pickle_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't be read: No such file.*copy both"):
        pickled.load(str(tmp_path / "environment.pkl"))
    (tmp_path / "environment.pkl").write_bytes(b"cimport_of_nothing_at_all\nx\n.")
    with pytest.raises(ConfigError, match=r"No module named 'import_of_nothing.*PYTHONPATH"):
        pickled.load(str(tmp_path / "environment.pkl"))
