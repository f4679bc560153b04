"""Exporting the policy of a run: which one, and what is said."""

from __future__ import annotations

import re
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from fast_core.errors import CheckpointError, ConfigError
from fast_core.policy import load_policy
from fast_core.tools.export import export_run
from tests.launcher.trained_run import make_trained


def choices(path: Path, obs: np.ndarray) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to leave TorchScript behind
        found: list[int] = torch.jit.load(path)(torch.from_numpy(obs)).tolist()
    return found


def test_best_policy_or_a_checkpoint_is_written_and_a_line_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_trained(tmp_path / "runs", checkpoints=1)
    monkeypatch.chdir(tmp_path)
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    for checkpoint, which in ((None, "best, version 7"), ("newest", "newest, version 10")):
        assert export_run(run.path, Path("p.ts"), checkpoint) == 0
        said = capsys.readouterr()
        assert said.err.splitlines()[0] == "loading torch ..." and "writing p.ts" in said.err
        assert re.fullmatch(
            rf"wrote p\.ts \(policy {which}\): observation float32 \[batch, 4\] -> "
            r"action int64 \[batch\]; differences from the policy: none\n",
            said.out,
        )
        wanted, _ = load_policy(run.path, checkpoint=checkpoint)(obs)
        assert choices(tmp_path / "p.ts", obs) == wanted.tolist()


def test_what_can_not_be_written_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="says its format"):
        export_run(tmp_path / "no run", Path("p.doc"))
    run = make_trained(tmp_path, checkpoints=1)
    with pytest.raises(CheckpointError, match=r"no checkpoint 'lost'\. It has 000000000001, best"):
        export_run(run.path, tmp_path / "p.ts", "lost")
    assert not (tmp_path / "p.ts").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_trained(tmp_path / "runs", checkpoints=1)
    (tmp_path / "out").mkdir()

    def interrupted(*_: object, **__: object) -> None:
        assert list((tmp_path / "out").iterdir()) != []
        signal.raise_signal(number)

    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(torch.jit, "save", interrupted)
        patch.setattr(torch.jit, "trace", lambda *_, **__: None)
        assert export_run(run.path, tmp_path / "out" / "p.ts") == 128 + number
    assert list((tmp_path / "out").iterdir()) == []
    assert signal.getsignal(number) is before
