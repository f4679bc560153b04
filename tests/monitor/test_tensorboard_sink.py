from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fast_core.messages.metrics import MetricsRow, RunEnd, RunStart
from fast_core.monitor.tensorboard_file import TensorBoardFile
from fast_core.monitor.tensorboard_sink import TensorBoardSink, scalars_of
from tests.monitor.event_files import read_images, read_scalars, read_sessions

CONFIG: Mapping[str, object] = {
    "name": "toy",
    "seed": 3,
    "algorithm": {"gamma": 0.5, "normalize": True, "sizes": [4, 4], "clip": None},
}


def row(env_steps: int, **values: float | None) -> MetricsRow:
    return MetricsRow(env_steps, env_steps, 0.5, {f"train/{k}": v for k, v in values.items()})


def sink_in(path: Path, continued: int | None = None) -> TensorBoardSink:
    sink = TensorBoardSink()
    sink.start(RunStart("toy", path, CONFIG, continued))
    return sink


def ended(
    best: float | None = None, last: float | None = None, outcome: Any = "finished"
) -> RunEnd:
    return RunEnd(outcome=outcome, text="", env_steps=1000, best_return=best, last_return=last)


def test_resume_from_an_earlier_step_leaves_rising_steps_and_loses_none(tmp_path: Path) -> None:
    first = sink_in(tmp_path)
    first.rows([row(step, a=float(step)) for step in range(100, 901, 100)])
    first.end(ended())
    resumed = sink_in(tmp_path, continued=600)
    resumed.rows([row(step, a=-float(step)) for step in range(650, 1001, 50)])
    resumed.end(ended())
    steps = [*range(100, 601, 100), *range(650, 1001, 50)]
    expected = [(step, float(step) if step <= 600 else -float(step)) for step in steps]
    assert read_scalars(tmp_path / "tensorboard")["train/a"] == expected


def test_every_point_of_many_nodes_is_readable_in_one_event_file(tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    for step in range(250):
        sink.rows([row(step, **{f"node{node}": step + node / 100 for node in range(16)})])
    sink.end(ended())
    scalars = read_scalars(tmp_path / "tensorboard")
    assert sum(len(points) for points in scalars.values()) == 16 * 250
    assert [step for step, _ in scalars["train/node15"]] == list(range(250))
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_tensorboard_shows_hyperparameters_beside_the_returns(tmp_path: Path) -> None:
    for name, best, outcome in (("a", 20.0, "finished"), ("b", None, "failed")):
        sink = sink_in(tmp_path / name)
        (tmp_path / name).mkdir()
        sink.rows([row(100, a=1.0)])
        sink.end(ended(best, 10.0, outcome))
    shown = read_sessions(tmp_path)
    assert shown["a/tensorboard"].hyperparameters == {
        "name": "toy",
        "seed": 3.0,
        "algorithm.gamma": 0.5,
        "algorithm.normalize": True,
        "algorithm.sizes": "[4, 4]",
    }
    assert shown["a/tensorboard"].metrics == {
        "hparams/best_return": 20.0,
        "hparams/last_return": 10.0,
    }
    assert shown["b/tensorboard"].metrics == {"hparams/last_return": 10.0}
    assert [shown[f"{name}/tensorboard"].status for name in "ab"] == ["SUCCESS", "FAILURE"]


def test_film_is_shown_as_an_animated_picture(tmp_path: Path) -> None:
    gif = b"GIF89a" + struct.pack("<HH", 300, 200) + b"the rest"
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.gif").write_bytes(gif)
    sink = sink_in(tmp_path)
    films = {"eval/video": "videos/a.mp4", "eval/gone": "videos/b.mp4"}
    sink.rows([MetricsRow(64, 4, 0.5, {"eval/x": 1.0}, films)])
    sink.end(ended())
    assert read_images(tmp_path / "tensorboard") == {"eval/video": [(64, 300, 200, gif)]}


def test_run_without_rows_leaves_no_event_file(tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    sink.rows([row(64)])
    sink.end(ended())
    assert not (tmp_path / "tensorboard").exists()


def test_values_of_a_configuration_are_found_by_dotted_key() -> None:
    group = {"a": {"b": {"c": 1}, "d": False}, "e": None, "f": {}}
    assert dict(scalars_of(group)) == {"a.b.c": 1, "a.d": False}


def tear(self: TensorBoardFile, step: int, values: object) -> None:
    """A write that a full disk cuts short."""
    self._file.write(b"half a record")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("continued", [None, 600])
def test_failed_write_begins_a_new_event_file_so_later_points_are_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continued: int | None
) -> None:
    sink = sink_in(tmp_path, continued)
    sink.rows([row(650, a=1.0)])
    with monkeypatch.context() as patch:
        patch.setattr(TensorBoardFile, "write", tear)
        with pytest.raises(OSError, match="No space"):
            sink.rows([row(700, a=2.0)])
    sink.rows([row(750, a=3.0)])
    sink.end(ended())
    assert read_scalars(tmp_path / "tensorboard")["train/a"] == [(650, 1.0), (750, 3.0)]
