from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from fast_core.monitor.live_table import fixed_rows, live_table
from fast_core.monitor.node_table import bar
from fast_core.monitor.view import EvaluationView, NodeView, ProgressView
from tests.monitor.views import EMPTY, REPLAYED, ROUNDS, VIEW


def drawn(view: ProgressView, width: int, **options: object) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(live_table(view, 43_310.0, 675.2, width=width, **options))  # type: ignore[arg-type]
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_everything_is_readable_at_usual_widths(width: int) -> None:
    text = "\n".join(drawn(VIEW, width, tail=("env-0 info: hello",), warnings=2))
    for part in (
        "ppo_cartpole · seed 7 · training · 8.4 s",
        "env steps 240,128 / 500,000",
        "48 %",
        "6.0 s left",
        "or score 312.4 / 475.0",
        "43,310",
        "675.2",
        "3,752",
        "213.4",
        "198.6",
        "1,832",
        "312.4 ± 88.1 (v3200)",
        "475.0 ± 12.1 (v2800)",
        "0.25 (max 3), degree 2",
        "env-0      ",
        "stepping",
        "82 %",
        "18 %",
        "shards 0, 2",
        "12345",
        "threads",
        "2 cores granted (affinity 2, quota 3.5)",
        "env-0 info: hello",
        "2 warnings",
    ):
        assert part in text, part


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("view", [VIEW, REPLAYED, EMPTY])
def test_no_line_is_wider_than_the_terminal(view: ProgressView, width: int) -> None:
    long = replace(view, run_name="name" * 60)
    lines = drawn(long, width, tail=("text " * 100,))
    assert {cell_len(line) for line in lines} == {width}


def test_nodes_beyond_the_screen_are_summed_up_in_one_row() -> None:
    nodes = tuple(NodeView(f"env-{index}", "stepping", 0.5, 0.25) for index in range(200))
    lines = drawn(replace(VIEW, nodes=nodes), 80, max_nodes=10)
    assert sum("stepping" in line for line in lines) == 9
    (rest,) = [line for line in lines if "+ 191 more" in line]
    assert "50 %" in rest and "25 %" in rest


def test_failed_node_beyond_the_screen_is_still_told() -> None:
    nodes = tuple(
        NodeView(f"env-{index}", "failed" if index == 150 else "stepping") for index in range(200)
    )
    lines = drawn(replace(VIEW, nodes=nodes), 80, max_nodes=10)
    assert "1 failed" in next(line for line in lines if "more" in line)


def test_node_that_has_no_figures_yet_shows_dashes() -> None:
    (row,) = [
        line
        for line in drawn(replace(VIEW, nodes=(NodeView("env-0", "starting"),)), 80)
        if "env-0" in line
    ]
    assert row.split()[1:] == ["env-0", "starting", "────────", "-", "-", "│"]


HEADS = ["node", "state", "busy", "waiting", "threads", "note", "pid"]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (20, ["node"]),
        (30, ["node", "state"]),
        (40, ["node", "state", "busy"]),
        (50, ["node", "state", "busy", "note"]),
        (60, ["node", "state", "busy", "waiting", "note"]),
        (72, ["node", "state", "busy", "waiting", "threads", "note", "pid"]),
        (80, HEADS),
    ],
)
def test_columns_are_dropped_rather_than_cut(width: int, heads: list[str]) -> None:
    lines = drawn(VIEW, width)
    (head,) = [line for line in lines if line.split()[1:2] == ["node"]]
    assert head.split()[1:-1] == heads
    (row,) = [line for line in lines if line.startswith("│ optimizer-0")]
    assert "…" not in row


@pytest.mark.parametrize("width", [20, 30, 50])
def test_figures_stand_one_below_another_where_the_terminal_is_narrow(width: int) -> None:
    lines = drawn(VIEW, width)
    labels = [line.removeprefix("│ ") for line in lines]
    for label in ("env steps/s", "return", "evaluation", "best", "policy lag"):
        assert sum(line.startswith(label) for line in labels) == 1, label


@pytest.mark.parametrize("width", [20, 60, 80, 120])
@pytest.mark.parametrize("view", [VIEW, REPLAYED])
def test_table_with_as_many_nodes_as_fit_is_no_higher_than_the_terminal(
    view: ProgressView, width: int
) -> None:
    nodes = tuple(NodeView(f"env-{index}", "stepping") for index in range(100))
    full = replace(view, nodes=nodes, stops=VIEW.stops[:1])
    tail = ("one", "two", "three")
    height = 40
    rows = height - fixed_rows(view, width)
    lines = drawn(full, width, tail=tail, max_nodes=rows)
    assert len(lines) <= height


@pytest.mark.parametrize("width", [80, 120])
def test_replay_has_a_line_of_its_own(width: int) -> None:
    (line,) = [line for line in drawn(REPLAYED, width) if "replay" in line]
    assert "replay 12,345 / 50,000 rows, 0.5 updates per env step, mean age" in line


def test_rounds_have_a_line_of_their_own_and_so_has_what_was_lost() -> None:
    view = replace(VIEW, rounds=ROUNDS)
    text = "\n".join(drawn(view, 100))
    line = "rounds 1,203 collected, 1,202 merged, 1,201 trained, busy 60 % / 97 %, ESS 0.981"
    assert line + ", clipped 8 %" in text and "degree 2 (auto)" in text
    assert "dropped" not in text
    assert fixed_rows(view, 100) == fixed_rows(VIEW, 100) + 1
    lossy = replace(
        ROUNDS, rows_dropped=4096, env_nodes_lost=1, stale_events=3, evaluations=12, coalesced=2
    )
    view = replace(VIEW, rounds=lossy)
    text = "\n".join(drawn(view, 100))
    assert "4,096 rows dropped, 1 env node lost, 3 stale messages" in text
    assert "12 evaluations and 2 coalesced" in text
    assert fixed_rows(view, 100) == fixed_rows(VIEW, 100) + 2


def test_node_of_a_role_that_nobody_knows_has_a_row() -> None:
    node = NodeView("curiosity", "working", 0.5, 0.5, threads=1)
    (row,) = [line for line in drawn(replace(VIEW, nodes=(node,)), 80) if "curiosity" in line]
    assert "working" in row and "50 %" in row


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (-1.0, "────"),
        (0.0, "────"),
        (0.25, "━───"),
        (0.4, "━╸──"),
        (0.99, "━━━╸"),
        (1.0, "━━━━"),
        (7.0, "━━━━"),
    ],
)
def test_bar_is_drawn_to_half_a_character(fraction: float, text: str) -> None:
    assert bar(fraction, 4).plain == text


def test_markup_and_escapes_in_names_are_shown_as_they_are() -> None:
    view = replace(VIEW, run_name="[red]x\x1b[2J")
    text = "\n".join(drawn(view, 80, tail=("[bold]line\x1b[0m",)))
    assert "[red]x�[2J" in text
    assert "[bold]line�[0m" in text


def test_evaluations_in_other_environments_have_a_line_of_their_own() -> None:
    each = EvaluationView(mean=12.5, std=1.0, version=32, env_steps=64)
    view = replace(VIEW, others={"windy": each, "calm": each})
    assert "eval windy 12.5 ± 1.00 (v32), calm 12.5 ± 1.00 (v32)" in "\n".join(drawn(view, 100))
    assert fixed_rows(view, 100) == fixed_rows(VIEW, 100) + 1
