"""Sinks of metrics in real runs: Weights & Biases without a network, and sinks that go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.monitor.event_files import read_images, read_scalars
from tests.monitor.wandb_files import read_history, read_records
from tests.process.harness import TOY, Launched, Workplace, digests, read_lines

pytestmark = pytest.mark.process

OWN = "tests.monitor.own_sinks"
TOLD: dict[str, Any] = {
    **TOY,
    "name": "told",
    "evaluation": {"every_env_steps": 64, "episodes": 2, "envs": 2},
    "checkpoint": {"every_updates": 4, "at_end": False},
    "stop": {"env_steps": 224},
}


def told(workplace: Workplace, *sinks: object, **metrics: object) -> Launched:
    config = {**TOLD, "metrics": {"interval_s": 0.001, "sinks": list(sinks), **metrics}}
    home = workplace.folder()
    environment = {"HOME": str(home), "WANDB_MODE": "offline"}
    return workplace.launch(config=config, home=home, environment=environment)


def go_on(workplace: Workplace, launched: Launched, *overrides: str) -> Launched:
    environment = {"HOME": str(launched.home), "WANDB_MODE": "offline"}
    return workplace.fastloop(
        ["resume", str(launched.run), *overrides], launched.home, environment=environment
    )


@pytest.mark.slow
def test_resumed_run_goes_on_in_the_same_wandb_run_and_the_same_curves(
    workplace: Workplace,
) -> None:
    pytest.importorskip("wandb")
    launched = told(workplace, "tensorboard", {"name": "wandb", "kwargs": {"project": "p"}}).ends()
    (first,) = launched.run.glob("wandb/offline-run-*/*.wandb")
    checkpoint = max(int(path.name) for path in launched.run.glob("checkpoints/[0-9]*"))
    go_on(workplace, launched, "stop.env_steps=512").ends()

    second = next(p for p in launched.run.glob("wandb/offline-run-*/*.wandb") if p != first)
    (one, *_), (other, *_) = (
        [each.run for each in read_records(path) if each.HasField("run")]
        for path in (first, second)
    )
    assert (one.run_id, one.project) == (other.run_id, other.project)
    assert one.project == "p" and one.display_name == launched.run.name

    histories = read_history(first), read_history(second)
    name = "train/policy_loss"
    logged = [[row["env_steps"] for row in rows if name in row] for rows in histories]
    written = [row["env_steps"] for row in read_lines(launched.run / "metrics.jsonl")]
    aside = read_lines(launched.run / "metrics.superseded.jsonl")
    assert checkpoint and aside, "the first part wrote beyond its last checkpoint"
    assert [*logged[0], *logged[1]] == sorted({*logged[0], *logged[1]}), "no point is doubled"
    assert logged[0][-1] == 224 < logged[1][0] and logged[1][-1] == 512
    assert set(logged[1]) <= set(written)
    curve = read_scalars(launched.run / "tensorboard")[name]
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})
    assert curve[-1][0] == 512
    evaluated = [
        row["env_steps"] for rows in histories for row in rows if "eval/return_mean" in row
    ]
    assert evaluated == sorted(set(evaluated))


def test_sinks_that_fail_or_hang_stop_neither_training_nor_rows(workplace: Workplace) -> None:
    hangs = [{"name": f"{OWN}:Hangs", "kwargs": {"method": m}} for m in ("start", "end")]
    fails = {"name": f"{OWN}:Fails", "kwargs": {"file": "fails.txt"}}
    launched = told(workplace, *hangs, fails, f"{OWN}:Leaves", end_timeout_s=1.0).ends()
    assert "finished" in launched.screen
    rows = [row["env_steps"] for row in read_lines(launched.run / "metrics.jsonl")]
    assert rows[-1] == 224 and len(rows) > 2
    warned = [line for line in launched.screen.splitlines() if "metrics sink" in line]
    assert len(warned) == 4, launched.screen
    for words in ("failed in rows(): RuntimeError: the server said no", "SystemExit: 3"):
        assert sum(words in line for line in warned) == 1
    assert sum("has not ended yet and is left behind" in line for line in warned) == 2
    told_last = (launched.run / "fails.txt").read_text().splitlines()[-1]
    assert told_last.startswith("end finished 224")


NO_END = (f"{OWN}:NoEnd", "lacks end")
MISSPELT = ({"name": "wandb", "kwargs": {"projct": "p"}}, "can't be given 'projct'")


@pytest.mark.slow
@pytest.mark.parametrize(("sink", "words"), [NO_END, MISSPELT])
def test_sink_that_can_not_be_made_is_refused_and_nothing_is_left(
    workplace: Workplace, sink: object, words: str
) -> None:
    if isinstance(sink, dict):
        pytest.importorskip("wandb")
    launched = told(workplace, sink)
    assert launched.wait() == 2
    assert words in launched.screen and "Traceback" not in launched.screen
    assert not list(launched.home.glob("runs/*"))


@pytest.mark.slow
def test_wandb_that_is_not_installed_is_refused_with_the_line_to_run(
    workplace: Workplace, tmp_path: Path
) -> None:
    (tmp_path / "wandb.py").write_text("raise ImportError('no wandb here')\n")
    config = {**TOLD, "metrics": {"sinks": ["wandb"]}}
    launched = workplace.launch(config=config, environment={"PYTHONPATH": str(tmp_path)}).ends(2)
    assert "pip install -e '.[wandb]'" in launched.screen and "no wandb here" in launched.screen


@pytest.mark.slow
def test_films_of_evaluations_reach_tensorboard_and_wandb_and_change_no_bit(
    workplace: Workplace,
) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("imageio_ffmpeg")
    environment = {"HOME": "", "WANDB_MODE": "offline", "SDL_VIDEODRIVER": "dummy"}
    runs = []
    for every in (2, None):
        home = workplace.folder()
        config = {
            **TOLD,
            "environment": {"id": "CartPole-v1"},
            "evaluation": {**TOLD["evaluation"], "video_every": every},
            "metrics": {"sinks": ["tensorboard", "wandb"] if every else []},
            "diagnostics": {"digests": True},
        }
        environment["HOME"] = str(home)
        runs.append(workplace.launch(config=config, home=home, environment=environment))
    for run in runs:
        run.ends()
    films, without = (
        {
            row["env_steps"]: row
            for row in read_lines(run.run / "metrics.jsonl")
            if "eval/return_mean" in row["values"]
        }
        for run in runs
    )
    assert digests(runs[0].run) == digests(runs[1].run)
    common = films.keys() & without.keys()
    assert common
    assert all(films[step]["values"] == without[step]["values"] for step in common)
    filmed = {step: row["videos"]["eval/video"] for step, row in films.items() if "videos" in row}
    assert filmed and all((runs[0].run / path).stat().st_size for path in filmed.values())
    shown = read_images(runs[0].run / "tensorboard")["eval/video"]
    assert [step for step, *_ in shown] == sorted(filmed)
    assert len(list(runs[0].run.glob("wandb/offline-run-*/files/media/**/*.mp4"))) == len(filmed)
