"""What is public is stable: its names and signatures, and that it costs nothing to import."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fast_core
from fast_core.config import RunConfig

ROOT = Path(__file__).parents[2]

SIGNATURES = {
    "Config": "(tree: 'Mapping[str, object] | None' = None, /, **keys: 'object') -> 'None'",
    "Config.changed": "(self, overrides: 'Overrides') -> 'Self'",
    "Config.load": "(path: 'str | PathLike[str]', overrides: 'Overrides' = None) -> 'Self'",
    "ConfigError": None,
    "Episodes": None,
    "FastLoopError": None,
    "Policy.__call__": "(self, obs: 'object', state: 'PolicyState | None' = None, "
    "deterministic: 'bool' = True) -> 'tuple[Any, PolicyState | None]'",
    "Policy.export": "(self, path: 'str | Path') -> 'Path'",
    "Policy": None,
    "Result": "(reason: 'StopReason', message: 'str', evaluation: 'EvaluationView | None', "
    "best: 'EvaluationView | None', env_steps: 'int', updates: 'int', time_s: 'float', "
    "run: 'Run', comebacks: 'int' = 0) -> None",
    "Run": "(path: 'str | PathLike[str]', *, modules: 'Sequence[str]' = ()) -> 'None'",
    "Run.resume": "(self, overrides: 'Overrides' = None, callbacks: 'Sequence[object]' = ()) "
    "-> 'Result'",
    "Run.save": "(self) -> 'Checkpoint'",
    "Run.stop": "(self, *, wait: 'bool' = True) -> 'None'",
    "RunFailed": None,
    "RunInterrupted": None,
    "evaluate": "(policy: 'Player', environment: 'object' = None, "
    "episodes: 'int | None' = None, seed: 'int | None' = None, "
    "record: 'str | Path | None' = None, *, deterministic: 'bool' = True) -> 'Episodes'",
    "load_policy": "(source: 'str | os.PathLike[str]', device: 'str' = 'cpu', *, "
    "checkpoint: 'str | None' = None, seed: 'int' = 0, nonfinite: 'Nonfinite' = 'fail', "
    "modules: 'Sequence[str]' = (), simulations: 'int | None' = None) -> 'Policy'",
    "make_env": "(what: 'Config | Run | str | PathLike[str] | Mapping[str, object] | "
    "Callable[..., object]', *, seed: 'int | None' = None, **environment: 'object') -> 'Env'",
    "train": "(config: 'Config | str | PathLike[str] | Mapping[str, object]', "
    "overrides: 'Overrides' = None, callbacks: 'Sequence[object]' = (), "
    "mode: \"Literal['process', 'inline'] | None\" = None, *, "
    "resume: 'Run | str | PathLike[str] | None' = None) -> 'Result'",
}
ATTRIBUTES = {
    "Config": {"changed", "code", "load", "values"},
    "Run": {
        *("checkpoints", "config", "crash", "directory", "evaluations", "events", "metrics"),
        *("modules", "policy", "resume", "save", "stop", "versions"),
    },
    "Result": {
        *(
            "best",
            "comebacks",
            "env_steps",
            "evaluation",
            "message",
            "policy",
            "reason",
            "run",
            "time_s",
        ),
        "updates",
    },
}


MINIMAL = {
    "name": "x",
    "environment": {"id": "CartPole-v1"},
    "algorithm": {"name": "ppo"},
    "stop": {"updates": 1},
}


def test_public_names_are_these() -> None:
    top = {name for name in SIGNATURES if "." not in name}
    assert set(fast_core.__all__) == top
    assert top <= set(dir(fast_core))


@pytest.mark.parametrize("name", [name for name, text in SIGNATURES.items() if text])
def test_public_signatures_are_these(name: str) -> None:
    found = fast_core
    for part in name.split("."):
        found = getattr(found, part)
    assert str(inspect.signature(found)) == SIGNATURES[name]  # type: ignore[arg-type]


def test_public_attributes_are_these(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    run = fast_core.Run(tmp_path)
    own = {*dir(fast_core.Config({**MINIMAL}))} - {*RunConfig.__struct_fields__}
    assert {name for name in own if not name.startswith("_")} == ATTRIBUTES["Config"]
    names = {*vars(run), *vars(type(run))}
    assert {name for name in names if not name.startswith("_")} == ATTRIBUTES["Run"]
    fields = {*fast_core.Result.__dataclass_fields__, *vars(fast_core.Result)}
    assert {name for name in fields if not name.startswith("_")} == ATTRIBUTES["Result"]


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        fast_core.trian  # noqa: B018


def test_stub_lists_the_public_names() -> None:
    text = (ROOT / "fast_core" / "__init__.pyi").read_text()
    stubbed = {line.rpartition(" as ")[2] for line in text.splitlines() if " as " in line}
    assert stubbed - {"__version__"} == set(fast_core.__all__)


def python(code: str, folder: Path, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_nothing_and_training_no_torch(tmp_path: Path) -> None:
    # Some installations import importlib when Python starts, and some do not.
    code = "import importlib, sys; before = set(sys.modules); import fast_core; "
    new = python(code + "print(*sorted(set(sys.modules) - before))", tmp_path).split()
    ours = {"fast_core", "fast_core.system"}
    assert set(new) == ours | {f"fast_core.system.{name}" for name in ("former", "installed")}
    heavy = "print(*{'torch', 'gymnasium', 'cloudpickle', 'pandas', 'rich'} & set(sys.modules))"
    code = f"import sys; from fast_core import Run, train; {heavy}"
    assert python(code, tmp_path) == "cloudpickle\n"


def test_folder_called_fastloop_of_a_users_is_theirs(tmp_path: Path) -> None:
    package = tmp_path / "fastloop"
    package.mkdir()
    (package / "__init__.py").write_text("mine = True")
    code = "import fastloop, fast_core; fast_core.train; print(fastloop.mine, fastloop.__file__)"
    assert python(code, tmp_path).split() == ["True", str(package / "__init__.py")]
