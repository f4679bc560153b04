from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fast_core.messages import Record
from fast_core.monitor.journal import EventJournal
from fast_core.monitor.metrics_writer import MetricsWriter
from fast_core.monitor.report import report_html, write_report
from fast_core.monitor.run_directory import RunDirectory
from tests.monitor.views import SUMMARY

WALL = datetime(2025, 3, 9, 12, 0, 5, tzinfo=UTC)
_VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Asserts that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path, "cartpole", WALL)
    run.write_config("name: cartpole\nseed: 7 # <b>\n")
    writer = MetricsWriter(run.path)
    for step in range(0, 6400, 64):
        values = {"policy_loss": 1 / (step + 1), "eval/return": step, "rollout/return": step}
        writer.write(Record(step, step // 64, 0.0, values))
    writer.close()
    return run


def journal_of(run: RunDirectory) -> EventJournal:
    return EventJournal(run.events, clock=lambda: 1.5, wall=lambda: WALL, report=[].append)


def test_report_tells_outcome_metrics_decisions_and_configuration(run: RunDirectory) -> None:
    journal = journal_of(run)
    journal.write("start", "3 nodes <are> ready")
    journal.write("end", "finished: reached 475")
    journal.summarise(SUMMARY)
    page = write_report(run).read_text()
    assert '<strong class="finished">finished</strong>: evaluation of version 2800' in page
    assert "<dd>300,000</dd>" in page and "<dd>475.0</dd>" in page
    assert page.count("<svg") == 3
    headings = re.findall(r"<h2>([A-Z][\w ]*\w)", page)
    assert headings == [
        "Training episodes",
        "Evaluation",
        "Learning",
        "Decisions",
        "Configuration",
    ]
    assert "3 nodes &lt;are&gt; ready" in page
    assert "seed: 7 # &lt;b&gt;" in page


def test_replay_has_charts_of_its_own(run: RunDirectory) -> None:
    writer = MetricsWriter(run.path)
    writer.write(Record(6400, 100, 0.0, {"replay/rows": 640.0, "scheduler/lag_max": 3.0}))
    writer.close()
    page = report_html(run)
    headings = re.findall(r"<h2>([A-Z][\w ]*\w)", page)
    assert headings[2:5] == ["Learning", "Replay", "Scheduling"]
    assert 'aria-label="rows 640.0"' in page


def test_returns_come_first_with_their_spread_and_then_what_the_user_asked_for(
    run: RunDirectory,
) -> None:
    writer = MetricsWriter(run.path)
    names = ("time/x", "notes/rows", "eval/return_mean", "eval/return_std", "info/cost")
    for step in (6400, 6500):
        values = dict.fromkeys((*names, "rollout/length_mean", "rollout/return_mean"), 2.0)
        writer.write(Record(step, 100, 0.0, values))
    writer.close()
    page = report_html(run)
    assert re.findall(r"<h2>([A-Z][\w ]*\w|notes)", page)[:7] == [
        "Returns",
        "Numbers of the info",
        "Training episodes",
        "Evaluation",
        "Learning",
        "Speed",
        "notes",
    ]
    titles = re.findall(r'aria-label="(.*?) [\d.,]+"', page)
    assert titles[:5] == ["training episodes", "evaluation", "cost", "return", "length_mean"]
    assert "return_std" not in titles
    assert page.count('class="band"') == 1


def test_returns_in_other_environments_stand_beside_those_of_training(run: RunDirectory) -> None:
    writer = MetricsWriter(run.path)
    names = ("rollout/return_mean", "evaluation/windy/return_mean", "evaluation/windy/length_mean")
    writer.write(Record(6400, 100, 0.0, dict.fromkeys(names, 2.0)))
    writer.close()
    page = report_html(run)
    titles = re.findall(r'aria-label="(.*?) [\d.,]+"', page)
    assert titles[:2] == ["training episodes", "evaluation in windy"]
    assert "windy/length_mean" in titles
    assert "Evaluation in other environments" in page


def test_report_says_what_the_run_was_made_with(run: RunDirectory) -> None:
    run.versions.write_text('[{"torch": "2.13.0"}]')
    assert "2.13.0" in report_html(run)


def test_report_loads_nothing_and_runs_no_script(run: RunDirectory) -> None:
    page = report_html(run)
    for word in ("http", "src=", "href=", "<script", "@import", "url("):
        assert word not in page
    checker = Checker()
    checker.feed(page)
    assert checker.stack == []


def test_killed_run_is_told_from_one_that_ended(run: RunDirectory) -> None:
    assert "No end was recorded" in report_html(run)
    journal = journal_of(run)
    journal.summarise(SUMMARY)
    assert "No end was recorded" not in report_html(run)
    journal.write("resume", "3 nodes are ready")
    assert "No end was recorded" in report_html(run)


def test_schedulers_own_end_stands_in_where_the_launcher_wrote_no_summary(
    run: RunDirectory,
) -> None:
    journal_of(run).write("end", "failed: env-0 raised")
    assert "failed: env-0 raised" in report_html(run)


def test_crash_is_shown_as_it_was(run: RunDirectory) -> None:
    run.crash.write_text("First cause: node 'env-3'\n<module>\n")
    assert "node &#x27;env-3&#x27;\n&lt;module&gt;" in report_html(run)


def test_run_that_failed_before_its_first_row_still_has_a_report(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "empty", WALL)
    page = write_report(run).read_text()
    assert "No metrics were written" in page


def test_long_list_of_decisions_is_cut_at_its_beginning(run: RunDirectory) -> None:
    journal = journal_of(run)
    for number in range(310):
        journal.write("evaluate", f"request {number}.")
    page = report_html(run)
    assert "10 earlier ones" in page
    assert "request 309." in page and "request 9." not in page
