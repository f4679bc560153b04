from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.dashboard.browser import CHROMIUM, NO_CHROMIUM, Visit, chromium

Visiting = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser: Any) -> Iterator[Visiting]:
    """Opens pages; they are closed when the test ends."""
    visits: list[Visit] = []

    def open_page(url: str, **options: Any) -> Visit:
        visits.append(Visit(browser, url, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        each.close()
