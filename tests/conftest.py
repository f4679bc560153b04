import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from fast_core.system import surroundings
from fast_core.system.threads import set_threads
from tests.closing import of_a_test

# Machines that run tests are slow and shared: a property fails by its assertions, not by time.
settings.register_profile(
    "fastloop",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("fastloop")

# Whoever runs the tests may ignore these (nohup, a background job); what they test is the default.
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every process that a test starts imports FastLoop; without its compiled modules each compiles
# them anew, which is a third of a short run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    """Compute on one thread, as a node does, now that the numerical libraries are loaded.

    Arrays of these sizes only wait for a second one, and OpenBLAS's spins until it is needed.
    """
    set_threads(1)
    _overlook()


@pytest.fixture(autouse=True, scope="session")
def output_of_the_tests_is_theirs() -> Iterator[None]:
    """A command takes standard output for its results, until its process ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surroundings, "reserve_output", lambda: None)
        yield


@pytest.fixture(autouse=True)
def what_is_made_is_closed() -> Iterator[None]:
    """See `tests.closing`."""
    with of_a_test():
        yield


@pytest.fixture(scope="module")
def what_there_is_overlooked() -> None:
    """For tests of what collects garbage often, as an emulator does that is closed."""
    _overlook()


def _overlook() -> None:
    """Have what there is, all that was imported, looked at no more when garbage is collected.

    To look at it takes half a second.
    """
    gc.collect()
    gc.freeze()
