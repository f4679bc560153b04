"""Environments tried before a run starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

# Told before an environment that is tried is made, or else called, to limit how long it takes.
Before = Callable[[Literal["make", "call"]], None]
