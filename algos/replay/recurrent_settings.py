"""The settings of those that may learn from sequences, with a recurrent layer. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from fast_core.algorithm import LearnerSetup, ReplaySpec, Window
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.config import Count
from fast_core.errors import ConfigError


class RecurrentSettings(ReplaySettings, frozen=True, kw_only=True):
    """What every algorithm has that may remember.

    Attributes:
        recurrent: A layer that remembers, under all networks and on what they see: convolutions
            below it. It is trained by the critics, in torch, and shared with the policy. Sequences
            are drawn then, and batch_size must be a multiple of sequence_length.
        recurrent_size: Width of the recurrent layer.
        sequence_length: Rows of a sequence that are learned from, fewer where its episode ends.
        burn_in: Rows before them that only warm the memory up, fewer where its episode begins.
        stored_state: Begin a sequence with what the policy remembered there, which the replay keeps
            of every row; false: with zero.
    """

    recurrent: Literal["none", "gru", "lstm"] = "none"
    recurrent_size: Count = 64
    sequence_length: Count = 16
    burn_in: Annotated[int, Meta(ge=0)] = 8
    stored_state: bool = True

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if a learner can't be built for this run."""
        super().check(environment, setup)
        if self.recurrent != "none":
            self._check_recurrent(environment)

    def _check_recurrent(self, environment: EnvironmentSpec) -> None:
        """Refuse what a recurrent layer can't be had with, and sequences that never are whole."""
        asked = f"algorithm.recurrent {self.recurrent!r}"
        if self.modular:
            raise ConfigError(
                f"{asked} lies between layers of FastLoop's own; algorithm.name {self.name!r} with "
                f"algorithm.network {self.network!r} has modules of its own. Set recurrent none, "
                "or stack frames (environment.frame_stack)."
            )
        if self.backend == "numpy":
            raise ConfigError(
                f"algorithm.backend 'numpy' has no gradients through time; {asked} needs them. Use "
                "auto or torch; policies act in NumPy either way."
            )
        length, limit = self.sequence_length, environment.max_episode_steps
        if limit is not None and length > limit:
            raise ConfigError(
                f"algorithm.sequence_length must be at most the {limit} steps of the longest "
                f"episode of {environment.id!r}; got {length}, so no sequence would ever be whole."
            )
        if self.batch_size % length:
            fitting = self.batch_size // length * length
            near = [str(rows) for rows in (fitting, fitting + length) if rows]
            raise ConfigError(
                f"algorithm.batch_size must be a multiple of algorithm.sequence_length ({length}) "
                f"with {asked}: batches are whole sequences; got {self.batch_size}. Use "
                f"{' or '.join(near)}."
            )

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch."""
        return self.recurrent != "none" or super().uses_torch(device=device, compile=compile)

    def identity(self) -> Mapping[str, object]:
        """What replays keep of what was remembered."""
        kept = {"cell": self.recurrent, "size": self.recurrent_size, "stored": self.stored_state}
        return {"algorithm.recurrent": "none" if self.recurrent == "none" else kept}

    def replay(self) -> ReplaySpec:
        """Transitions, or as many rows in sequences."""
        if self.recurrent == "none":
            return super().replay()
        return ReplaySpec(
            max(1, self.batch_size // self.sequence_length),
            sequence=Window(self.sequence_length, self.burn_in, self.n_step - 1),
            stored_state=self.stored_state,
        )

    def memory(self, environment: EnvironmentSpec) -> MemoryShape | None:
        """The recurrent layer, on what is observed or convolutions make of it."""
        if self.recurrent == "none":
            return None
        return MemoryShape(self.recurrent, self.observed_size(environment), self.recurrent_size)

    def products_below(self, environment: EnvironmentSpec, passes: int) -> int:
        """With a memory rows are seen once by what learns and once by targets, some around too."""
        memory, encoder = self.memory(environment), self.encoder(environment)
        if memory is None:
            return super().products_below(environment, passes)
        products = memory.products + (0 if encoder is None else encoder.products)
        unrolled = 4 * (self.sequence_length + self.n_step) + 2 * self.burn_in
        return products * unrolled // self.sequence_length
