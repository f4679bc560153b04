from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.monitor.figures import (
    count,
    duration,
    evaluation_text,
    number,
    printable,
    replay_text,
    share,
    stop_text,
)
from fast_core.monitor.view import ReplayView, StopCondition
from tests.monitor.views import BEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.0"),
        (0.00012345, "0.000123"),
        (0.0000123, "1.2e-05"),
        (0.0123, "0.0123"),
        (0.999, "1.00"),
        (1.234, "1.23"),
        (213.44, "213.4"),
        (-213.44, "-213.4"),
        (1234.5, "1,234.5"),
        (43210.4, "43,210"),
        (12_300_000.0, "1.2e+07"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_evaluation_shows_the_share_that_can_not_count() -> None:
    assert evaluation_text(replace(BEST, quarantined=0.15)) == (
        "475.0 ± 12.1 (v2800), 15 % quarantined"
    )
    none_known = replace(BEST, mean=math.nan, std=math.nan, quarantined=1.0)
    assert evaluation_text(none_known) == "- (v2800), 100 % quarantined"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (math.inf, "-"),
        (-1.0, "0.0 s"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.9, "1 h 00 min"),
        (12_000, "3 h 20 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_share_is_held_between_0_and_100() -> None:
    shares = [share(value) for value in (None, math.nan, -0.1, 0.0, 0.824, 1.7)]
    assert shares == ["-", "-", "0 %", "0 %", "82 %", "100 %"]


def test_count_separates_thousands() -> None:
    assert count(1_234_567.6) == "1,234,568"


def test_stop_texts_name_the_unit() -> None:
    assert stop_text(StopCondition("env_steps", 1500, 2000)) == "env steps 1,500 / 2,000"
    assert stop_text(StopCondition("updates", None, 2000)) == "updates 0 / 2,000"
    assert stop_text(StopCondition("time_s", 65.0, 3600.0)) == "time 1 min 05 s / 1 h 00 min"
    assert stop_text(StopCondition("score", None, 475.0)) == "score - / 475.0"


def test_evaluation_text_has_mean_deviation_and_version() -> None:
    assert evaluation_text(BEST) == "475.0 ± 12.1 (v2800)"
    assert evaluation_text(None) == "-"


def test_control_characters_are_made_harmless() -> None:
    assert printable("\x1b[2Jred\x07 ä\tb") == "�[2Jred� ä\tb"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_float_has_a_short_text(value: float) -> None:
    assert 0 < len(number(value)) <= len("-1,000,000")
    assert 0 < len(share(value)) <= 5
    duration(value)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (ReplayView(rows=0, capacity=50_000), "replay 0 / 50,000 rows"),
        (
            ReplayView(rows=700, capacity=50_000, learning_from=1001),
            "replay 700 / 50,000 rows, learns from 1,001 env steps on",
        ),
        (
            ReplayView(rows=1200, capacity=50_000, learning_from=1000, age=610.2, lapped=3),
            "replay 1,200 / 50,000 rows, mean age 610 env steps",
        ),
        (
            ReplayView(rows=9, capacity=9, refused_values=12, refused_stale=5, empty_batches=2),
            "replay 9 / 9 rows, 12 priorities refused, 2 batches without rows",
        ),
        (
            ReplayView(rows=9, capacity=9, staleness=0.5, staleness_max=3),
            "replay 9 / 9 rows, gradients 0.5 stale (max 3)",
        ),
        (
            ReplayView(rows=9, capacity=9, staleness=0.0, staleness_max=0),
            "replay 9 / 9 rows",
        ),
    ],
)
def test_replay_tells_what_it_holds_and_what_deserves_a_look(view: ReplayView, text: str) -> None:
    assert replay_text(view, 1000) == text
