"""What is refused, in which words, and that nothing half done is left."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError, ExportError
from fast_core.policy.export import check_target, export, write
from fast_core.policy.export import formats as formats_module
from fast_core.policy.export import header as header_module
from fast_core.policy.export.interface import make_interface
from fast_core.policy.export.samples import TOLERANCE, Reference, draw
from tests.forms import slow_but
from tests.policy.export.cases import CASES, FIVE, Case, box, ppo
from tests.policy.export.cases import discrete as choice
from tests.policy.export.own import PARAMETERS, Module, own
from tests.policy.export.test_formats import build


def refused(folder: Path, name: str, given: Any) -> str:
    """The sentence; nothing is left in the folder."""
    config, environment = given
    before = sorted(folder.iterdir())
    with pytest.raises(ExportError) as caught:
        export(config, environment, PARAMETERS, folder / name)
    assert sorted(folder.iterdir()) == before
    return str(caught.value)


def written(case: Case, path: Path) -> Any:
    return write(case.config, case.environment, case.parameters(), path)


@pytest.mark.parametrize("name", ["p.txt", "p", "p.ONNX", ".h"])
def test_unknown_suffix_is_refused_with_those_that_are_known(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.onnx \(ONNX\), \.pt2 .*, \.ts .*, \.h .*; got"):
        check_target(tmp_path / name)


def test_place_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ConfigError, match=r"folder.onnx' is a folder; name a file"):
        check_target(tmp_path / "folder.onnx")
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere' to write 'p.ts' to"):
        check_target(tmp_path / "nowhere" / "p.ts")


def test_algorithm_without_a_module_is_told_what_to_write(tmp_path: Path) -> None:
    said = refused(tmp_path, "p.ts", own(torch.tanh, exported=None))
    assert "algorithm 'own' doesn't say how its policies are computed in torch" in said
    assert "Write policy_module(environment, parameters) in OwnConfig" in said
    said = refused(tmp_path, "p.ts", own(torch.tanh, exported="a module"))
    assert "its policy_module returned 'a module'" in said
    assert AlgorithmConfig.policy_module(*own(torch.tanh), ()) is None


def test_file_that_says_something_else_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "p.ts").write_text("what was there before")
    other = Module(lambda obs: torch.tanh(obs) + 2e-4)
    said = refused(tmp_path, "p.ts", own(torch.tanh, exported=other))
    assert "doesn't do what the policy does" in said and "0.0002" in said and "1e-05" in said
    assert (tmp_path / "p.ts").read_text() == "what was there before"


@pytest.mark.parametrize(
    "exported",
    [
        Module(lambda obs: torch.tanh(obs)[:, :3]),
        Module(lambda obs: torch.tanh(obs).double()),
        Module(lambda obs: torch.tanh(obs) / 0 * 0),
    ],
    ids=["shape", "dtype", "nan"],
)
def test_other_shape_dtype_or_nan_is_a_difference(exported: Module, tmp_path: Path) -> None:
    assert "differ by up to inf" in refused(tmp_path, "p.ts", own(torch.tanh, exported=exported))


def test_file_that_can_not_be_run_here_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path, interface: object) -> Any:
        assert path.stat().st_size
        raise RuntimeError("no kernel\nfor this")

    real = formats_module.FORMATS[".ts"]
    monkeypatch.setitem(formats_module.FORMATS, ".ts", replace(real, open=opened))
    said = refused(tmp_path, "p.ts", own(torch.tanh))
    assert "what runs such files here can't run it: RuntimeError: no kernel. It is not kept" in said


def test_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert "p.ts': No space left on device. Name a file" in refused(
        tmp_path, "p.ts", own(torch.tanh)
    )


def test_home_folder_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_target("~/p.ts") == tmp_path / "p.ts"


def test_file_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "p.ts").write_text("what was there before")
    before = os.umask(0o027)
    try:
        path = export(*own(torch.tanh), PARAMETERS, tmp_path / "p.ts")
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o640 and path.stat().st_size > 1000


@pytest.mark.slow
def test_operation_that_onnx_does_not_know_is_named_with_what_can(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    said = refused(tmp_path, "p.onnx", own(torch.lgamma))
    assert "ONNX has no operation 'prims.lgamma', which this policy computes" in said
    assert said.endswith("What can: .pt2, .ts.")


@pytest.mark.slow
def test_convolutions_are_refused_in_c_with_what_can(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no operation 'aten.convolution.default'.*\.onnx, "):
        written(CASES["dqn_cnn"](), tmp_path / "p.h")


def test_module_that_depends_on_values_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def branches(obs: Tensor) -> Tensor:
        return obs if obs.sum() > 0 else -obs

    said = refused(tmp_path, "p.pt2", own(branches))
    assert "torch.export can't follow the policy" in said
    assert "may not depend on the values of tensors" in said
    # Tracing follows one branch, which is found out.
    said = refused(tmp_path, "p.ts", own(branches))
    assert "doesn't do what the policy does" in said and "on the values of tensors" in said
    assert capfd.readouterr() == ("", ""), "no graph"


def test_module_that_depends_on_the_number_of_rows_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, "p.pt2", own(lambda obs: obs + torch.zeros(2, 1)))
    assert "torch.export can't follow the policy" in said


def test_missing_torch_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fast_core.policy.export.exporting.find_spec", lambda name: None)
    said = refused(tmp_path, "p.h", own(torch.tanh))
    assert said.startswith("a .h file is made with torch") and "`pip install torch`" in said


def test_missing_library_is_named_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> object:
        return None if name.startswith("onnx") else importlib.util.find_spec(name)

    monkeypatch.setattr(formats_module, "find_spec", find)
    said = refused(tmp_path, "p.onnx", own(torch.tanh))
    assert "needs what is not installed (onnx, onnxscript, onnxruntime): run `pip" in said
    assert "pip install -e '.[onnx]'" in said


def test_old_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats_module, "find_spec", lambda name: name)
    monkeypatch.setattr(torch, "__version__", "2.4.1+cpu")
    said = refused(tmp_path, "p.onnx", own(torch.tanh))
    assert "needs torch 2.6 or newer; here is 2.4.1+cpu" in said


@pytest.mark.parametrize("suffix", slow_but([".pt2", ".ts"], [".onnx", ".pt2", ".ts"]))
def test_exporters_say_nothing(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(CASES["ppo"](), tmp_path / f"p{suffix}")
    assert capfd.readouterr() == ("", "")


def test_choices_that_are_as_good_as_equal_are_no_difference() -> None:
    case = ppo(FIVE, choice(2), normalize_observations=False)
    *body, weight, bias = case.parameters()
    weight[1] = weight[0] * np.float32(1 + 1e-7)
    bias[1] = bias[0]
    parameters = (*body, weight, bias)
    reference = Reference(case.config, case.environment, parameters)
    sample = draw(make_interface(case.config, case.environment), 32)
    (action,) = reference.answers(sample)
    assert reference.difference(sample, [action]) == 0.0
    assert reference.difference(sample, [1 - action]) == TOLERANCE
    weight[1] = -weight[0]
    reference = Reference(case.config, case.environment, parameters)
    (action,) = reference.answers(sample)
    assert reference.difference(sample, [1 - action]) == 1.0


@pytest.mark.parametrize("start", [0, 2**31, 2**62])
def test_another_choice_is_a_difference_wherever_choices_begin(start: int) -> None:
    case = ppo(box(2), choice(3, start=start))
    reference = Reference(case.config, case.environment, case.parameters())
    sample = draw(make_interface(case.config, case.environment), 40)
    (action,) = reference.answers(sample)
    assert reference.difference(sample, [action]) == 0.0
    assert reference.difference(sample, [start + (action - start + 1) % 3]) == 1.0


def test_differences_are_in_halves_of_the_range_of_an_action() -> None:
    case = CASES["ddpg"]()  # acts within [-1e-4, 1e-4]
    reference = Reference(case.config, case.environment, case.parameters())
    sample = draw(make_interface(case.config, case.environment), 8)
    (action,) = reference.answers(sample)
    assert reference.difference(sample, [action + np.float32(1e-6)]) == pytest.approx(1e-2, rel=0.1)


# --- C -------------------------------------------------------------------------------------------

ACTIVATIONS = [
    *(nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish()),
    *(nn.ELU(0.7), nn.SELU(), nn.CELU(0.5), nn.LeakyReLU(0.02), nn.Softplus(), nn.Softsign()),
    *(nn.Hardtanh(-0.5, 2.0), nn.ReLU6(), nn.Hardswish(), nn.Hardsigmoid(), nn.LogSigmoid()),
    *(nn.PReLU(), nn.Tanhshrink(), nn.Softmax(-1), nn.LogSoftmax(-1), nn.LayerNorm(4)),
    nn.LayerNorm(4, elementwise_affine=False),
]


@pytest.mark.native
def test_activations_and_norms_of_users_networks_are_written_in_c(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for module in ACTIVATIONS:
        for parameter in module.parameters():
            nn.init.normal_(parameter)

    def every(obs: Tensor) -> Tensor:
        obs = obs.clamp(-3, 3)
        made = [module(obs) for module in ACTIVATIONS]
        made += [obs.cos() / (1 + obs**2), obs.abs().sqrt(), torch.where(obs > 0, obs, obs.exp())]
        made += [obs.mean(1, keepdim=True), obs.amax(1, keepdim=True), obs.sum(1, keepdim=True)]
        made += [obs.view(-1, 2, 2).transpose(1, 2).flatten(1), obs @ torch.ones(4, 2)]
        made += [1 / (2 + obs.long().abs()), (2 + obs.long().abs()).reciprocal()]
        single = obs.view(-1, 4, 1)  # nothing to choose from
        made += [single.softmax(2)[..., 0], single.amax(2), single.argmax(2).float()]
        return torch.cat(made, 1)

    config, environment = own(every)
    exported = write(config, environment, PARAMETERS, tmp_path / "p.h")
    assert exported.difference is not None and exported.difference < 1e-5


def test_variants_of_operations_that_are_not_written_in_c_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler here nobody would notice."""
    only = {".h": formats_module.FORMATS[".h"]}  # the others would be tried, which takes a second
    monkeypatch.setattr(formats_module, "FORMATS", only)
    said = refused(tmp_path, "p.h", own(lambda obs: obs.round(decimals=1)))
    assert "plain C has no operation 'aten.round.decimals' here" in said


def test_choices_that_no_number_of_c_can_tell_are_refused(tmp_path: Path) -> None:
    case = ppo(choice(4, start=2**53), choice(2), normalize_observations=False)
    with pytest.raises(ExportError, match=r"exact up to 2\^53, and choices of 'Test-v0' go beyond"):
        written(case, tmp_path / "p.h")
    assert written(case, tmp_path / "p.ts").difference == 0.0, "as the message says"


@pytest.mark.native
def test_header_refuses_what_is_not_finite_and_describes_itself(tmp_path: Path) -> None:
    case = CASES["ppo_box_half"]()
    written(case, tmp_path / "2 fast.h")
    text = (tmp_path / "2 fast.h").read_text()
    assert "The policy that ppo of FastLoop" in text and "learned in Test-v0." in text
    assert "obs[0..4]: observation, any number" in text
    assert "action[0..1]: action, -inf to 0.1, -0.1 to inf" in text
    assert "#define POLICY_2_FAST_OBS 5\n#define POLICY_2_FAST_ACTION 2" in text
    (tmp_path / "main.c").write_text(
        '#include "2 fast.h"\n'
        "int main(void)\n{\n"
        "    float obs[POLICY_2_FAST_OBS] = {0}, action[POLICY_2_FAST_ACTION] = {7, 7};\n"
        "    obs[3] = HUGE_VALF;\n"
        "    if (policy_2_fast_act(obs, action) != 1 || action[0] != 7) return 1;\n"
        "    obs[3] = NAN;\n"
        "    if (policy_2_fast_act(obs, action) != 1 || action[1] != 7) return 2;\n"
        "    obs[3] = 0;\n"
        "    return policy_2_fast_act(obs, action) || action[0] == 7 ? 3 : 0;\n}\n"
    )
    program = tmp_path / "main"
    build("cc", "-std=c99", "-o", program, tmp_path / "main.c", "-lm")
    assert subprocess.run([program], check=False).returncode == 0


def test_header_without_a_compiler_is_written_and_said_to_be_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats_module, "find_compiler", lambda: None)
    exported = write(*own(torch.tanh), PARAMETERS, tmp_path / "p.h")
    assert exported.difference is None and exported.path.exists()
    assert exported.summary == (
        "int p_act(const float obs[4], float action[4]); not tried, as there is no C compiler here"
    )


@pytest.mark.native
def test_compiler_is_the_one_that_the_user_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "mycc"
    compiler.write_text(
        "#!/bin/sh\nprintf 'In file included:\\np.h:1: error: no licence\\n' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert header_module.find_compiler() == [str(compiler)]
    monkeypatch.setenv("CC", f"{compiler} gcc")  # as with ccache
    assert header_module.find_compiler() == [str(compiler), "gcc"]
    with pytest.raises(
        ExportError, match=r"mycc gcc refuses the header \(p.h:1: error: no licence\)"
    ):
        write(*own(torch.tanh), PARAMETERS, tmp_path / "p.h")


@pytest.mark.parametrize("name", ["linear:LinearConfig", "a2c:A2CConfig"])
def test_example_of_an_own_algorithm_is_exported(tmp_path: Path, name: str) -> None:
    config = algorithm_config_type(f"examples.{name}")(name=name)
    environment = EnvironmentSpec("Test-v0", box(2, 2, dtype="float64"), choice(3, start=5))
    case = Case(config, environment)
    assert written(case, tmp_path / "p.ts").difference == 0.0
