"""What learners of all kinds keep and refuse: updates that were not finite, others' parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fast_core.algos.nets.networks import F32, Parameter
from fast_core.errors import CheckpointError, TrainingDiverged


class Nonfinite:
    """Counts updates that were NaN or infinite.

    Attributes:
        suspects: What is to be looked for.
        total: All of them.
        in_a_row: Those since the last that was finite.
    """

    def __init__(self) -> None:
        self.suspects = "infinite observations or rewards"
        self.total = self.in_a_row = 0

    def count(self, limit: int, env_steps: int) -> None:
        """Count one, of which ``limit`` in a row are too many.

        Raises:
            TrainingDiverged: There were as many.
        """
        self.total += 1
        self.in_a_row += 1
        if self.in_a_row >= limit:
            raise TrainingDiverged(
                f"{self.in_a_row} updates in a row were NaN or infinite, as many as "
                f"algorithm.nonfinite_limit allows (after {env_steps} env steps, "
                f"{self.total} in all); the parameters are those before them. "
                f"Lower algorithm.learning_rate, or look for {self.suspects}."
            )

    @property
    def metrics(self) -> dict[str, float]:
        """For a report."""
        return {"nonfinite_updates": float(self.total)}

    def state_dict(self) -> dict[str, object]:
        """Both counters."""
        return {"nonfinite_updates": self.total, "nonfinite_in_a_row": self.in_a_row}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.total = int(state["nonfinite_updates"])
        self.in_a_row = int(state["nonfinite_in_a_row"])


def fill(flat: F32, values: Mapping[str, Any], parameters: Sequence[Parameter]) -> F32:
    """Write a checkpoint's parameters to their places, and give ``flat`` back.

    Raises:
        CheckpointError: They are those of another network.
    """
    found = {name: np.shape(array) for name, array in values.items()}
    needed = {p.name: p.shape for p in parameters}
    if found != needed:
        differ = sorted(
            name for name in found.keys() | needed if found.get(name) != needed.get(name)
        )
        wanted, got = ({name: of.get(name) for name in differ} for of in (needed, found))
        raise CheckpointError(
            f"the checkpoint's networks must have the configured parameters {wanted}; got {got}. "
            "Use the algorithm's keys of the configuration that wrote it."
        )
    for p in parameters:
        p.view(flat)[...] = np.asarray(values[p.name])
    return flat
