from collections.abc import Iterator

import pytest

from tests.process.harness import Workplace


@pytest.fixture
def workplace() -> Iterator[Workplace]:
    place = Workplace()
    yield place
    place.close()
