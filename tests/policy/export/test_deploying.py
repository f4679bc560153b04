"""The examples of deployment: a policy balances CartPole without FastLoop, in Python and in C.

`tests/process/test_tutorial.py` has one that was trained, exported by command and drives.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fast_core.algos.ppo.config import PPOConfig
from fast_core.policy.export import export
from tests.nodes.stage import CARTPOLE
from tests.policy.export.test_formats import build

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "examples" / "deploy"
TAUGHT = (0.1, 0.3, 1.0, 1.0)  # push to the right where the state times this is positive


def balancing(path: Path) -> Path:
    """A policy that balances, made by hand."""
    config = PPOConfig(hidden_sizes=(4,), normalize_observations=False)
    small = np.float32(0.01)  # where tanh is linear
    head = np.zeros((2, 4), np.float32)
    head[1] = TAUGHT
    parameters = [small * np.eye(4, dtype=np.float32), np.zeros(4, np.float32), head]
    return export(config, CARTPOLE, [*parameters, np.zeros(2, np.float32)], path)


def run(folder: Path, *command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_example(policy: Path) -> str:
    # As a stranger has it: whatever is imported, it is not this.
    code = (
        "import runpy, sys; sys.modules['fast_core'] = None; "
        f"sys.argv = ['cartpole_onnx.py', {str(policy)!r}]; "
        f"runpy.run_path({str(DEPLOY / 'cartpole_onnx.py')!r}, run_name='__main__')"
    )
    return run(policy.parent, sys.executable, "-P", "-c", code)


def c_example(policy: Path) -> str:
    program = policy.with_name("cartpole")
    build(
        "cc", "-std=c99", "-O2", f"-I{policy.parent}", "-o", program, DEPLOY / "cartpole.c", "-lm"
    )
    return run(policy.parent, program)


@pytest.mark.slow
def test_python_without_fastloop_balances_the_pole(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    said = python_example(balancing(tmp_path / "cartpole.onnx"))
    assert said.splitlines()[-1] == "mean return 500"
    assert len((DEPLOY / "cartpole_onnx.py").read_text().splitlines()) <= 42


@pytest.mark.slow
@pytest.mark.native
def test_c_balances_the_pole(tmp_path: Path) -> None:
    said = c_example(balancing(tmp_path / "cartpole_policy.h")).splitlines()
    assert said[0] == "start -0.050: return 500" and said[-1] == "mean return 500"
    assert len(said) == 6


def test_code_in_the_documentation_is_the_examples_code() -> None:
    examples = "\n".join(path.read_text("utf-8") for path in sorted(DEPLOY.iterdir()))
    text = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    blocks = re.findall(r"```c\n(.*?)```", text, re.DOTALL)  # its Python runs as it stands there
    assert len(blocks) == 1
    for block in blocks:
        assert block.strip() in examples, f"not in the examples:\n{block}"
