import pytest

from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.stopping import limit_reached, tickets_needed
from tests.scheduler.simulation import make_settings


def at(env_steps: int, updates: int) -> Settled:
    return Settled(env_steps=env_steps, updates=updates)


@pytest.mark.parametrize(
    ("limits", "settled", "env_steps", "updates", "needed"),
    [
        ({"stop_env_steps": 100}, 0, 0, 0, 5),  # a ticket is 2 x 10 env steps
        ({"stop_env_steps": 101}, 0, 0, 0, 6),
        ({"stop_env_steps": 100}, 5, 100, 20, 5),
        ({"stop_env_steps": 90}, 5, 100, 20, 5),
        ({"stop_env_steps": None, "stop_updates": 9}, 0, 0, 0, 3),  # and 4 updates
        ({"stop_env_steps": None, "stop_updates": 9}, 3, 60, 8, 4),  # some were skipped
        ({"stop_env_steps": 100, "stop_updates": 9}, 0, 0, 0, 3),  # whichever comes first
        ({"stop_env_steps": None, "stop_time_s": 1.0}, 3, 60, 12, None),
    ],
)
def test_tickets_needed(
    limits: dict[str, object], settled: int, env_steps: int, updates: int, needed: int | None
) -> None:
    settings = make_settings(**limits)
    ratio = Ratio(settings, None)
    assert tickets_needed(settings, at(env_steps, updates), ratio, settled) == needed


@pytest.mark.parametrize(
    ("limits", "env_steps", "updates", "text"),
    [
        ({}, 99, 0, None),
        ({}, 100, 0, "100 env steps trained (stop.env_steps: 100)"),
        ({"stop_updates": 8}, 40, 7, None),
        ({"stop_updates": 8}, 40, 8, "8 updates (stop.updates: 8)"),
        ({"stop_env_steps": None, "stop_time_s": 5.0}, 40, 8, None),
    ],
)
def test_limit_reached(
    limits: dict[str, object], env_steps: int, updates: int, text: str | None
) -> None:
    settings = make_settings(**limits)
    assert limit_reached(settings, at(env_steps, updates)) == text
