"""What the algorithms that process tests bring with them have in common."""

from __future__ import annotations

from fast_core.config import AlgorithmConfig
from fast_core.spec import EnvironmentSpec, FieldSpec


class TinyConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """One number is all that policies are given; one update a ticket, and no torch."""

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        return (FieldSpec("number", (1,), "float32"),)

    def updates_granted(self, rows: int) -> int:
        return 1

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        return False
