"""Every kind of policy in every format does what the policy does, read by the format's library."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fast_core.policy.export import Exported, write
from fast_core.policy.export.c_names import DTYPES, number_type, observation_type
from tests.forms import slow_but
from tests.policy.export.cases import CASES, Case, answers, observations, parts, states

Answer = Callable[[list[np.ndarray]], list[np.ndarray]]
ROWS = 200
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
# Every format, and every kind of input, head and memory once; the others in the long form.
QUICK_ONNX, QUICK_PROGRAM = {"ppo_multi_masked", "ppo_wide"}, {"ppo_lstm"}
QUICK_HEADER = {"ppo_multi_masked", "ppo_far", "ppo_wide"}
# Tracing takes a tenth of the time of other formats.
KINDS = (
    *("ppo_box_stretched", "ppo_box_half", "ppo_binary", "ppo_tuple", "ppo_frames", "ppo_gru"),
    *(
        "ppo_wide",
        "ppo_cnn_mixed",
        "sac_options",
        "dsact",
        "ddpg",
        "dqn_masked",
        "td3_own_parts",
        "qrdqn",
    ),
)
# An ONNX file is made of the graph that torch.export makes, for which a few of each kind do.
PROGRAMS = ("ppo_lstm", "sac_wide", "ppo_tuple", "sac_cnn", "dqn_masked", "td3_own_parts")
ONNX = (
    *("ppo_multi_masked", "ppo_box_stretched", "ppo_box_half", "ppo_binary", "ppo_tuple"),
    *(
        "ppo_wide",
        "ppo_lstm",
        "ppo_own_gru",
        "ppo_own_frames",
        "ppo_cnn_mixed",
        "sac_options",
        "ddpg",
    ),
    *("dqn_masked", "dqn_cnn", "td3_own_parts", "qrdqn"),
)
FLAT = [name for name, case in CASES.items() if case().flat]


def written(case: Case, path: Path) -> Exported:
    return write(case.config, case.environment, case.parameters(), path)


def same(case: Case, answer: Answer) -> None:
    """Single rows and several of them."""
    count = ROWS if case.flat else ROWS // 5
    obs, state = observations(case, count), states(case, count)
    wanted = answers(case, obs, state)
    given = [*parts(case, obs), *state]
    for rows in (slice(0, 1), slice(1, 3), slice(0, count)):
        got = answer([each[rows] for each in given])
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other[rows].shape)
            if other.dtype.kind != "f":
                np.testing.assert_array_equal(one, other[rows])
                continue
            # In the units of the action; what is unbounded relative to the row.
            scale = np.maximum(1.0, np.abs(other[rows]).max(initial=0.0))
            np.testing.assert_allclose(one, other[rows], rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("name", slow_but(KINDS, CASES))
def test_observations_of_the_tests_lead_to_many_actions(name: str) -> None:
    case = CASES[name]()
    rows = ROWS if case.flat else ROWS // 5
    (action, *_) = answers(case, observations(case, rows), states(case, rows))
    assert len(np.unique(action.reshape(rows, -1), axis=0)) > 1


@pytest.mark.parametrize("name", slow_but(KINDS, CASES))
def test_torchscript_does_what_the_policy_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    path = written(case, tmp_path / "p.ts").path
    files = {"fastloop.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to leave TorchScript behind
        module = torch.jit.load(path, _extra_files=files)
        same(case, lambda given: tensors_through(module, given))
    assert json.loads(files["fastloop.json"])["environment"] == case.environment.id


@pytest.mark.parametrize("name", slow_but(QUICK_PROGRAM, PROGRAMS))
def test_exported_program_does_what_the_policy_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    path = written(case, tmp_path / "p.pt2").path
    files = {"fastloop.json": ""}
    module = torch.export.load(path, extra_files=files).module()
    same(case, lambda given: tensors_through(module, given))
    assert json.loads(files["fastloop.json"])["algorithm"] == case.config.name


def tensors_through(module: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    with torch.no_grad():
        made = module(*[torch.from_numpy(each.copy()) for each in given])
    return [each.numpy() for each in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("name", slow_but(QUICK_ONNX, ONNX))
def test_onnx_does_what_the_policy_does(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case = CASES[name]()
    exported = written(case, tmp_path / "p.onnx")
    session = onnxruntime.InferenceSession(exported.path, providers=["CPUExecutionProvider"])
    names = [port.name for port in exported.interface.inputs]
    same(case, lambda given: session.run(None, dict(zip(names, given, strict=True))))
    for ports, found in (
        (exported.interface.inputs, session.get_inputs()),
        (exported.interface.outputs, session.get_outputs()),
    ):
        assert [(p.name, ["batch", *p.shape]) for p in ports] == [(f.name, f.shape) for f in found]
    said = json.loads(session.get_modelmeta().custom_metadata_map["fastloop"])
    assert [port["name"] for port in said["inputs"]] == names
    assert str(Path(__file__).parents[3]) not in exported.path.read_text("latin-1")
    model = pytest.importorskip("onnx").load(exported.path)
    assert (model.ir_version, model.opset_import[0].version) == (8, 18), "what old runtimes take"


@pytest.mark.native
@pytest.mark.parametrize("name", slow_but(QUICK_HEADER, FLAT))
def test_header_does_what_the_policy_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    exported = written(case, tmp_path / "controller.h")
    assert exported.difference is not None and exported.difference < 1e-5
    act = compiled(tmp_path, exported)
    kind = DTYPES[number_type(exported.interface)]
    taken = DTYPES[observation_type(exported.interface)]

    def answer(given: list[np.ndarray]) -> list[np.ndarray]:
        count = len(given) - bool(exported.interface.state_size)
        obs = [each.reshape(len(each), -1).astype(taken) for each in given[:count]]
        state = [each.copy() for each in given[count:]]
        rows = [np.ascontiguousarray(np.concatenate(obs, axis=1)), *state]
        action = np.zeros((len(rows[0]), *case.environment.action.shape), kind)
        for row in range(len(action)):
            pointers = [each[row : row + 1].ctypes.data_as(ctypes.c_void_p) for each in rows]
            assert act(*pointers, action[row : row + 1].ctypes.data_as(ctypes.c_void_p)) == 0
        return [action.astype(case.environment.action.dtype), *state]

    same(case, answer)


def compiled(folder: Path, exported: Exported) -> Any:
    """The function of a header ``controller.h``, by a C compiler and with all warnings."""
    state = "float *state, " if exported.interface.state_size else ""
    taken, given = observation_type(exported.interface), number_type(exported.interface)
    (folder / "use.c").write_text(
        '#include "controller.h"\n#include "controller.h"\n'
        f"int use(const {taken} *obs, {state}{given} *action);\n"
        f"int use(const {taken} *obs, {state}{given} *action)\n"
        f"{{ return controller_act(obs, {'state, ' if state else ''}action); }}\n"
    )
    library = folder / "use.so"
    build("cc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", library, folder / "use.c", "-lm")
    build("c++", "-std=c++11", "-x", "c++", "-c", "-o", folder / "use.o", folder / "use.c")
    return ctypes.CDLL(str(library)).use


def build(compiler: str, *arguments: Any) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    done = subprocess.run(
        [compiler, *STRICT, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
