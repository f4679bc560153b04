"""Runs side by side: which belong together, which count, and what is written."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent

import pytest

from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.tools.compare import output as files
from fast_core.tools.compare.compare import Comparison, compare
from fast_core.tools.compare.table import compare_and_show, table
from tests.tools.made_runs import CONFIG, made_run, write

SLOW = "algorithm.learning_rate=1e-5"


def rows(comparison: Comparison) -> dict[str, tuple[int, float, float]]:
    """Number, mean of the final and of the best values, by name."""
    return {row.name: (row.final.n, row.final.mean, row.best.mean) for row in comparison.rows}


def test_runs_that_differ_in_their_seed_alone_are_one_configuration(tmp_path: Path) -> None:
    for seed in range(3):
        made_run(tmp_path, f"seed={seed}", "nodes.env.count=1", values=[5.0, 30.0, 10.0 + seed])
        made_run(tmp_path, f"seed={seed}", SLOW, "name=slow", values=[1.0])
    assert rows(compare([tmp_path])) == {"made": (3, 11.0, 30.0), "slow": (3, 1.0, 1.0)}


def test_what_says_how_a_run_is_computed_and_kept_makes_no_difference(tmp_path: Path) -> None:
    keys = ["nodes.env.count=2", "nodes.optimizer.threads=2", "checkpoint.keep=9"]
    keys += ["dashboard.enabled=true"]
    for seed, key in enumerate([*keys, "metrics.interval_s=9", "mode=inline"]):
        made_run(tmp_path, f"seed={seed}", key, values=[1.0])
    assert list(rows(compare([tmp_path]))) == ["made"]


def test_environment_from_python_lies_in_each_run_and_makes_no_difference(tmp_path: Path) -> None:
    pickled = "environment.pickled=environment.pkl"
    for seed, count in enumerate((1, 2)):
        made_run(tmp_path, pickled, f"seed={seed}", f"nodes.env.count={count}", values=[1.0])
    (row,) = compare([tmp_path]).rows
    assert row.final.n == 2


def test_runs_of_one_name_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0])
    made_run(tmp_path, SLOW, "algorithm.gamma=0.5", values=[1.0])
    made_run(tmp_path, "name=other", "algorithm.gamma=0.7", values=[1.0])
    assert sorted(rows(compare([tmp_path]))) == [
        "made: learning_rate=0.0003, gamma=0.99",
        "made: learning_rate=1.0e-05, gamma=0.5",
        "other",
    ]


@pytest.mark.parametrize("outcome", ["failed", "interrupted", None])
def test_run_that_ended_early_is_told_and_not_averaged(tmp_path: Path, outcome: str | None) -> None:
    made_run(tmp_path, values=[1.0, 2.0])
    early = made_run(tmp_path, "seed=1", values=[100.0], outcome=outcome)
    comparison = compare([tmp_path])
    assert rows(comparison) == {"made": (1, 2.0, 2.0)}
    (note,) = [note for note in comparison.notes if "left out" in note]
    assert str(early) in note and "100.0 at 100 env steps" in note
    assert any("--at 100" in note for note in comparison.notes)


def test_runs_are_compared_at_the_steps_that_all_have_reached(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0, 2.0])
    made_run(tmp_path, "seed=1", values=[3.0], outcome=None)
    made_run(tmp_path, "seed=2", values=[], outcome=None)
    comparison = compare([tmp_path], at=100)
    assert rows(comparison) == {"made": (2, 2.0, 2.0)}
    assert any("interrupted: it was killed, nothing at 0" in note for note in comparison.notes)


def test_run_without_a_value_so_early_is_told(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0, 2.0])
    comparison = compare([tmp_path], at=50)
    assert comparison.rows[0].final.n == 0
    assert any("no value before 100 env steps" in note for note in comparison.notes)


def test_same_seed_twice_is_one_sample(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0], outcome="failed")
    made_run(tmp_path, values=[2.0])
    made_run(tmp_path, values=[3.0])
    assert rows(compare([tmp_path])) == {"made": (1, 3.0, 3.0)}


def test_runs_are_compared_across_a_key(tmp_path: Path) -> None:
    for seed in range(2):
        for gravity, value in ((9, 1.0), (5, 3.0)):
            keys = [f"seed={seed}", f"environment.kwargs.g={gravity}", f"name=g{gravity}"]
            made_run(tmp_path, *keys, values=[value])
            made_run(tmp_path, *keys, SLOW, values=[value + 1])
    found = compare([tmp_path], across="environment.kwargs")
    name = "across environment.kwargs: learning_rate="
    assert rows(found) == {f"{name}1.0e-05": (4, 3.0, 3.0), f"{name}0.0003": (4, 2.0, 2.0)}
    assert found.rows[0].final.interval == pytest.approx((2.0, 2.0))  # within each all are equal
    with pytest.raises(ConfigError, match="no key 'environment"):
        compare([tmp_path], across="environment.kwarg")


def test_file_of_a_sweep_stands_for_its_folder(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "many", values=[1.0])
    file = tmp_path / "many.yaml"
    file.write_text(f"directory: {tmp_path}/runs\nconfig:\n{indent(CONFIG, '  ')}")
    assert rows(compare([file])) == {"made": (1, 1.0, 1.0)}


def test_steps_to_a_score(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0, 5.0, 2.0])
    made_run(tmp_path, "seed=1", values=[6.0])
    made_run(tmp_path, "seed=2", values=[1.0])
    comparison = compare([tmp_path], score=5.0)
    assert comparison.rows[0].steps_to == (200.0, 100.0, math.inf)
    assert "200  reached by 2 of 3" in table(comparison)


def test_best_of_a_cost_is_its_lowest_if_that_is_said(tmp_path: Path) -> None:
    for seed in range(3):
        made_run(tmp_path, f"seed={seed}", values=[5.0, 1.0, 3.0], metric="eval_info/cost")
    unsaid = compare([tmp_path], metric="eval_info/cost", score=4.0)
    assert "highest" in table(unsaid) and "best" not in table(unsaid)
    said = compare([tmp_path], metric="eval_info/cost", score=2.0, lower=True)
    assert said.rows[0].best.mean == 1.0 and "lower is better" in table(said)
    assert unsaid.rows[0].best.mean == 5.0
    assert said.rows[0].steps_to != unsaid.rows[0].steps_to and "best" in table(said)
    assert "best" in table(compare([tmp_path], metric="eval_info/cost", lower=True))


def test_values_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0, None, 50.0], quarantined={300: 0.5})
    comparison = compare([tmp_path])
    assert rows(comparison) == {"made": (1, 1.0, 1.0)}
    assert any(note.startswith("2 values are not known") for note in comparison.notes)


@pytest.mark.parametrize("metric", ["eval_info/speed", "evaluation/windy/info/speed"])
def test_what_an_evaluation_with_an_unknown_episode_says_is_left_out(
    tmp_path: Path, metric: str
) -> None:
    run = RunDirectory(made_run(tmp_path, values=[1.0]))
    share = metric.replace("_info/speed", "/").replace("info/speed", "") + "quarantined_share"
    rows = [{metric: 1.0, share: 0.0}, {metric: 9.0, share: 0.5}]
    write(
        run.metrics,
        [{"env_steps": n, "updates": n, "time_s": 1.0, "values": v} for n, v in enumerate(rows)],
    )
    (row,) = compare([tmp_path], metric=metric).rows
    assert row.final.mean == 1.0


def test_training_returns_stand_in_where_nothing_is_evaluated(tmp_path: Path) -> None:
    made_run(tmp_path, values=[4.0], metric="rollout/return_mean")
    comparison = compare([tmp_path])
    assert comparison.metric == "rollout/return_mean"
    assert rows(comparison)["made"][1] == 4.0


def test_few_seeds_are_warned_of(tmp_path: Path) -> None:
    for seed in range(3):
        assert bool(seed) == any((tmp_path / "made").glob("*"))
        made_run(tmp_path, f"seed={seed}", values=[1.0])
        few = any("Fewer than 3 seeds" in note for note in compare([tmp_path]).notes)
        assert few == (seed < 2)


def test_unknown_metric_and_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        compare([tmp_path])
    made_run(tmp_path, values=[1.0])
    with pytest.raises(ConfigError, match=r"no metric 'evaluation/return_mean'.*eval/return_mean"):
        compare([tmp_path], metric="evaluation/return_mean")
    with pytest.raises(ConfigError, match="no run at"):
        compare([tmp_path / "nowhere"])


def test_run_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0])
    other = made_run(tmp_path, "seed=1", values=[1.0])
    (other / "config.yaml").write_text("sed: 1\n")
    assert any(str(other) in note for note in compare([tmp_path]).notes)
    with pytest.raises(ConfigError, match=f"{other} can't be read: "):
        compare([other])


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for seed in range(3):
        made_run(tmp_path, f"seed={seed}", values=[1.0 + seed, 2.0, 7.0])
        made_run(tmp_path, f"seed={seed}", SLOW, "name=a<b", values=[0.0, 1.0, seed])
    return tmp_path


def test_picture_has_a_line_a_band_and_a_name_for_each(two: Path, tmp_path: Path) -> None:
    assert compare_and_show([two], output=tmp_path / "out.svg") == 0
    picture = ElementTree.parse(tmp_path / "out.svg")
    classes = [element.attrib.get("class") for element in picture.iter()]
    assert (classes.count("line"), classes.count("band"), classes.count("name")) == (2, 2, 2)
    names = [element.text for element in picture.iter() if element.attrib.get("class") == "name"]
    assert names == ["a<b (3 seeds)", "made (3 seeds)"]


def test_figures_are_written(two: Path, tmp_path: Path) -> None:
    comparison = compare([two])
    files.write(comparison, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["configuration"] == "made"]
    assert [float(row["mean"]) for row in found] == [2.0, 2.0, 7.0]
    files.write(comparison, tmp_path / "out.json")
    tree = json.loads((tmp_path / "out.json").read_text())
    assert [len(each["runs"]) for each in tree["configurations"]] == [3, 3]
    assert tree["configurations"][0]["final"]["mean"] == 1.0


def test_json_knows_no_nan(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0])
    files.write(compare([tmp_path], score=9.0), tmp_path / "out.json")
    tree = json.loads((tmp_path / "out.json").read_text())
    assert tree["configurations"][0]["final"]["std"] is None
    assert tree["configurations"][0]["steps_to_score"] == [None]


def test_file_that_can_not_be_written_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="-o must end in"):
        files.check(tmp_path / "out.pdf")
    with pytest.raises(ConfigError, match="there is no folder"):
        files.check(tmp_path / "nowhere" / "out.svg")


def test_png_is_drawn_or_says_what_is_missing(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("matplotlib") is not None:
        files.write(compare([two]), tmp_path / "out.png")
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[plot\]'"):
        files.check(tmp_path / "out.png")
