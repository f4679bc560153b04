"""What becomes of the scheduler's news in the records that callbacks get."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec

from fast_core.callbacks import Checkpoint, Evaluation, Outcome, Start
from fast_core.config import SupervisionConfig
from fast_core.launcher.calling.host import Call, Host
from fast_core.launcher.calling.telling import Telling
from fast_core.launcher.listener import NewRun
from fast_core.launcher.shown.scores import Scores
from fast_core.messages import Evaluated, Moment, Played, Save
from fast_core.messages.launching import CommitCheckpoint, Tell
from fast_core.monitor.run_directory import RunDirectory
from tests.launcher.shown.test_metrics_rows import BLANK


class Heard:
    """A host that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[Call] = []
        self.changed: dict[str, object] = {}

    def tell(self, moment: Moment, calls: list[Call]) -> None:
        self.told += calls

    def save(self, command: Save) -> None: ...


def telling(
    folder: Path, resumed: Path | None = None, **now: object
) -> tuple[Telling, Heard, Scores]:
    run, host = RunDirectory.create(folder, "toy", datetime(2026, 1, 1)), Heard()
    scores = Scores(run, ("moon",))
    config = SimpleNamespace(supervision=SupervisionConfig())
    plan = SimpleNamespace(config=config, checkpoint=resumed and str(resumed))
    made = Telling(cast(Host, host), run, plan, scores)  # type: ignore[arg-type]
    scheduler = SimpleNamespace(statistics=lambda: msgspec.structs.replace(BLANK, **now))
    made.begin(NewRun(scheduler, None, None, 0.0))  # type: ignore[arg-type]
    return made, host, scores


def test_evaluation_is_told_of_with_what_it_came_to_elsewhere(tmp_path: Path) -> None:
    made, host, scores = telling(tmp_path, evaluations_finished=2, elapsed_s=1.5)
    moon = Played((5.0, float("nan")), (1, 2), {"x": 1.0})
    event = Evaluated(
        "evaluator-0", 9, 40, 100, (1.0, 3.0), (7, 8), {}, {"moon": moon}, "videos/a.mp4"
    )
    scores.add(event)
    made.hear(event, 0.0)
    made.obey(Tell("evaluation"))
    ((method, record),) = host.told
    assert method == "on_evaluation"
    others = {"moon": Outcome(moon.returns, moon.lengths, moon.info, None)}
    video = made._run.path / "videos" / "a.mp4"
    assert record == Evaluation(2, 40, 100, 1.5, (1.0, 3.0), (7, 8), {}, 2.0, True, others, video)


def test_checkpoint_is_told_of_by_its_final_name(tmp_path: Path) -> None:
    made, host, _ = telling(tmp_path)
    made.obey(Save(3, "checkpoints/000000000100.tmp"))
    made.obey(CommitCheckpoint(3, 40, 100, (), b""))
    made.obey(Tell("checkpoint"))
    path = Path("checkpoints/000000000100")
    assert host.told == [("on_checkpoint", Checkpoint(3, path, 40, 100))]


def test_resumed_run_tells_of_its_checkpoint_once_more(tmp_path: Path) -> None:
    path = tmp_path / "000000000100"
    made, host, _ = telling(tmp_path, path, checkpoint=3, version=40, env_steps_trained=100)
    made.obey(Tell("start"))
    assert host.told == [
        ("on_start", Start(made._run.path, path, 40, 100)),
        ("on_checkpoint", Checkpoint(3, path, 40, 100, resumed=True)),
    ]


def test_evaluation_that_is_not_the_best_is_told_of_as_such(tmp_path: Path) -> None:
    made, host, scores = telling(tmp_path)
    for returns in ((5.0,), (4.0,), (6.0,)):
        event = Evaluated("evaluator-0", 9, 40, 100, returns, (7,), {})
        scores.add(event)
        made.hear(event, 0.0)
        made.obey(Tell("evaluation"))
    assert [cast(Evaluation, record).best for _, record in host.told] == [True, False, True]
