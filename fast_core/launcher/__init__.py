"""From a configuration to running nodes and back to nothing: see `run`.

Importing this package imports neither torch nor an environment.
"""

from fast_core.launcher.outcome import Outcome

__all__ = ["Outcome"]
