from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.adapters import ADAPTERS, Maker


@pytest.fixture(params=ADAPTERS)
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    maker = Maker(ADAPTERS[request.param])
    yield maker
    for batch in maker.made:
        batch.close()
