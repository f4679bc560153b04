"""How long a thread waits for a core while it could compute, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

SHORTEST_NS = 5_000_000
_OWN = Path("/proc/thread-self/schedstat")


class Crowding:
    """How much longer what this thread computes takes than where it always has a core.

    Time in which it waits for anything else counts for nothing.
    """

    def __init__(self, path: Path = _OWN) -> None:
        """For the thread that reads ``path``, which Linux gives each its own figures in."""
        self._path = path
        self._ran_ns, self._waited_ns = self._read()
        self._factor = 1.0

    def factor(self) -> float:
        """1 where it has a core whenever it wants one, 3 where it waits twice as long as it has.

        Since the last call, or as before where it has computed for less than `SHORTEST_NS` since.
        Always 1 where the machine does not tell.
        """
        ran_ns, waited_ns = self._read()
        since_ns = ran_ns - self._ran_ns
        if since_ns >= SHORTEST_NS:
            self._factor = 1.0 + (waited_ns - self._waited_ns) / since_ns
            self._ran_ns, self._waited_ns = ran_ns, waited_ns
        return self._factor

    def _read(self) -> tuple[int, int]:
        try:
            ran, waited, *_ = self._path.read_text().split()
            return int(ran), int(waited)
        except (OSError, ValueError):
            return 0, 0
