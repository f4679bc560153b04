import pytest

from fast_core.scheduler.flow import places


@pytest.mark.parametrize(
    ("started", "settled", "degree", "needed", "hold", "expected"),
    [
        (0, 0, 0, None, False, 4),
        (1, 0, 0, None, False, 3),
        (4, 0, 0, None, False, 0),  # synchronous: ticket 1 waits for ticket 0
        (4, 1, 0, None, False, 4),
        (4, 0, 1, None, False, 4),
        (0, 0, 5, None, False, 24),
        (24, 0, 5, None, False, 0),
        (24, 1, 5, None, False, 4),
        (0, 0, 5, 2, False, 8),  # the run needs two tickets in all
        (8, 0, 5, 2, False, 0),
        (4, 1, 0, 1, False, 0),
        (4, 0, 5, None, True, 0),  # held between two tickets
        (5, 0, 5, None, True, 3),  # held within one: it is filled
        (5, 0, 1, 1, False, 3),
        (5, 0, 0, None, False, 0),  # the degree has fallen: ticket 1 waits for ticket 0 again
        (5, 0, 0, None, True, 0),
        (5, 1, 0, None, True, 3),
        (9, 0, 1, 1, False, 0),
    ],
)
def test_places(
    started: int, settled: int, degree: int, needed: int | None, hold: bool, expected: int
) -> None:
    got = places(
        started=started, settled=settled, shards=4, degree=degree, needed=needed, hold=hold
    )
    assert got == expected
