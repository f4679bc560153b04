"""From a configuration to running nodes and back to nothing: see `run`.

Importing this package imports neither torch nor an environment.
"""

from importlib import import_module

from fast_core.launcher.outcome import Outcome

__all__ = ["Outcome"]


def __getattr__(name: str) -> object:
    """The functions of `run` that are asked for here, imported then."""
    if name in ("launch", "resume", "validate"):
        found: object = getattr(import_module("fast_core.launcher.run"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
