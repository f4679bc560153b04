"""Where the time of a run goes, on either side; every event costs O(1)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fast_core.scheduler.degree import Spent
from fast_core.scheduler.state import SavedState, kept


class Sides(msgspec.Struct, kw_only=True):
    """Seconds of training so far, as a mean of the env nodes and of the learner.

    Attributes:
        collecting_s: That env nodes had work.
        collecting_waits_s: That they had none.
        training_s: That a ticket was training.
        training_waits_s: That none was.
    """

    collecting_s: float = msgspec.field(default=0.0, name="time_collecting_s")
    collecting_waits_s: float = msgspec.field(default=0.0, name="time_collecting_waits_s")
    training_s: float = msgspec.field(default=0.0, name="time_training_s")
    training_waits_s: float = msgspec.field(default=0.0, name="time_training_waits_s")

    def since(self, dt_s: float, working: float, *, training: bool) -> None:
        """Let time pass."""
        self.collecting_s += dt_s * working
        self.collecting_waits_s += dt_s * (1 - working)
        self.training_s += dt_s * training
        self.training_waits_s += dt_s * (not training)


class Times:
    """Who has work since when.

    Attributes:
        spent: Since the degree was looked at last; None where nobody looks at it.
        held: Whether admission is held, or no further ticket is needed: nobody is late then.
        training: Whether a ticket is training.

    After a hold, or where a node is lost, the pipeline fills anew whatever the degree: nobody is
    late until the first ticket has settled without.
    """

    def __init__(self, env_nodes: Iterable[str], spent: Spent | None, saved: SavedState | None):
        """Go on from ``saved``; time stands still until the first `pass_until`."""
        self.spent = spent
        self.held = self.training = self._fills = False
        self._sides = kept(Sides, saved)
        self._now_s: float | None = None
        self._living = set(env_nodes)
        self._orders: dict[str, int] = {}  # of nodes that have work
        self._through_s: dict[str, float] = {}  # when a node reported last

    def state(self) -> Sides:
        """What a checkpoint keeps."""
        return self._sides

    @property
    def _working(self) -> float:
        return len(self._orders) / max(len(self._living), 1)

    def pass_until(self, now_s: float) -> None:
        """Let time pass up to ``now_s`` as things stand."""
        if self._now_s is not None and now_s > self._now_s:
            dt_s, working, training = now_s - self._now_s, self._working, self.training
            self._fills |= self.held
            if self.spent is not None:
                self.spent.since(dt_s, working=working, training=training, held=self._fills)
            self._sides.since(dt_s, working, training=training)
        self._now_s = now_s

    def sides(self, now_s: float | None) -> Sides:
        """How the time went, up to ``now_s`` as things stand."""
        sides = msgspec.structs.replace(self._sides)
        if now_s is not None and self._now_s is not None:
            dt_s = max(now_s - self._now_s, 0.0)
            sides.since(dt_s, self._working, training=self.training)
        return sides

    def ordered(self, node: str, rollouts: int) -> None:
        """Note that a node was told to collect."""
        self._living.add(node)
        self._orders[node] = self._orders.get(node, 0) + rollouts

    def completed(self, node: str, began_s: float, now_s: float) -> float:
        """Note that it has done a part of that, which it was told to at ``began_s``.

        Returns how long it was at it, in s.
        """
        served_s = now_s - max(began_s, self._through_s.get(node, began_s))
        if self.spent is not None:
            self.spent.completed(now_s - began_s, served_s)
        self._through_s[node] = now_s
        left = self._orders.pop(node, 0) - 1
        if left > 0:
            self._orders[node] = left
        return served_s

    def settled(self, *, whole: bool) -> None:
        """Note that a ticket is settled, and whether every node is there."""
        self._fills = self.held or not whole

    def bury(self, node: str) -> None:
        """Note that it is dead."""
        self._fills = True
        self._living.discard(node)
        self._orders.pop(node, None)
