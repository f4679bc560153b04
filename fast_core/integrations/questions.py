"""What anybody may ask of a coordinator while a run goes on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from fast_core.integrations.coordinator import Coordinator
from fast_core.integrations.statistics import Statistics


class Questions:
    """What may be asked of a coordinator while threads work with it; they hold ``lock``."""

    def __init__(self, coordinator: Coordinator, lock: AbstractContextManager[object]) -> None:
        self._coordinator, self._lock = coordinator, lock

    @property
    def degree(self) -> int:
        """See `Coordinator.degree`."""
        with self._lock:
            return self._coordinator.degree

    def can_collect(self) -> bool:
        """See `Coordinator.can_collect`."""
        with self._lock:
            return self._coordinator.can_collect()

    def can_train(self) -> bool:
        """See `Coordinator.can_train`."""
        with self._lock:
            return self._coordinator.can_train()

    def can_evaluate(self) -> bool:
        """See `Coordinator.can_evaluate`."""
        with self._lock:
            return self._coordinator.can_evaluate()

    @property
    def evaluation(self) -> tuple[bool, int | None]:
        """See `Coordinator.evaluation`."""
        with self._lock:
            return self._coordinator.evaluation

    def statistics(self) -> Statistics:
        """See `Coordinator.statistics`."""
        with self._lock:
            return self._coordinator.statistics()
