"""FastLoop: trains reinforcement-learning policies with several processes on one machine.

What is public in Python stands here and in docs/python.md; it is imported when it is first used,
because every process and command of FastLoop imports this package.
"""

import importlib

from fast_core.system.former import find_by_former_names
from fast_core.system.installed import VERSION

__version__ = VERSION

_HOMES = {
    "Config": "fast_core.api.config",
    "ConfigError": "fast_core.errors",
    "Episodes": "fast_core.policy",
    "FastLoopError": "fast_core.errors",
    "Policy": "fast_core.policy",
    "Result": "fast_core.api.runs",
    "Run": "fast_core.api.runs",
    "RunFailed": "fast_core.errors",
    "RunInterrupted": "fast_core.api.runs",
    "evaluate": "fast_core.policy",
    "load_policy": "fast_core.policy",
    "make_env": "fast_core.api.environment",
    "train": "fast_core.api.training",
}

__all__ = [*_HOMES]


find_by_former_names()


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
