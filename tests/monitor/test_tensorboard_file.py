from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.api_pb2 import DataType
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from fast_core.monitor.tensorboard_file import TensorBoardFile
from tests.monitor.event_files import read_scalars


def test_scalars_are_read_back_by_tensorboard_before_the_file_is_closed(tmp_path: Path) -> None:
    file = TensorBoardFile(tmp_path)
    file.write(64, {"train/loss": 0.5, "eval/return": 12.0})
    file.write(128, {"train/loss": 0.25})
    assert read_scalars(tmp_path) == {
        "train/loss": [(64, 0.5), (128, 0.25)],
        "eval/return": [(64, 12.0)],
    }
    file.close()


def test_values_that_are_not_finite_are_kept_as_they_are(tmp_path: Path) -> None:
    file = TensorBoardFile(tmp_path)
    file.write(1, {"a": math.nan, "b": math.inf, "c": 1e300, "d": -math.inf})
    file.close()
    scalars = read_scalars(tmp_path)
    assert math.isnan(scalars["a"][0][1])
    assert [scalars[tag][0][1] for tag in "bcd"] == [math.inf, math.inf, -math.inf]


def test_purge_voids_later_points_of_earlier_files_only(tmp_path: Path) -> None:
    first = TensorBoardFile(tmp_path)
    for step in (500, 600, 700):
        first.write(step, {"a": float(step)})
    first.close()
    second = TensorBoardFile(tmp_path, purge_step=601)
    second.write(650, {"a": 1.0})
    second.close()
    assert read_scalars(tmp_path)["a"] == [(500, 500.0), (600, 600.0), (650, 1.0)]


def test_later_file_sorts_behind_earlier_ones_though_the_clock_fell_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for now in (1_700_000_000.0, 1_700_000_000.0, 1_600_000_000.0):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        file = TensorBoardFile(tmp_path)
        names.append(file.path.name)
        file.close()
    assert names == sorted(names)
    assert len(set(names)) == 3


def test_full_disk_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: TensorBoardFile, event: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TensorBoardFile, "_append", fail)
    with pytest.raises(OSError, match="No space"):
        TensorBoardFile(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_hyperparameters_have_their_kinds(tmp_path: Path) -> None:
    file = TensorBoardFile(tmp_path)
    file.begin_hyperparameters({"a": True, "b": 1, "c": 0.5, "d": "e"}, [], 0.0)
    file.close()
    reader = EventAccumulator(str(tmp_path)).Reload()
    content = reader.SummaryMetadata("_hparams_/experiment").plugin_data.content
    (*kinds,) = (
        each.type for each in HParamsPluginData.FromString(content).experiment.hparam_infos
    )
    assert [DataType.Name(each) for each in kinds] == [
        f"DATA_TYPE_{name}" for name in ("BOOL", "FLOAT64", "FLOAT64", "STRING")
    ]


@pytest.mark.process
def test_writing_needs_neither_tensorboard_nor_torch(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "for name in ('tensorboard', 'google', 'torch'): sys.modules[name] = None\n"
        "from fast_core.monitor.tensorboard_file import TensorBoardFile\n"
        "file = TensorBoardFile(pathlib.Path(sys.argv[1])); file.write(1, {'a': 1.0})\n"
        "file.begin_hyperparameters({'a': 1}, ['b'], 0.0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
