"""The policy in your hands: the file it travels in, acting with it, evaluating it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fast_core.policy.episodes import Episodes
    from fast_core.policy.evaluation import evaluate
    from fast_core.policy.loading import load_policy
    from fast_core.policy.policy import Policy, PolicyState

__all__ = ["Episodes", "Policy", "PolicyState", "evaluate", "load_policy"]

# Imported when asked for: nodes need the file's format alone, and evaluating imports Gymnasium.
_PLACES = {
    "Episodes": "episodes",
    "Policy": "policy",
    "PolicyState": "policy",
    "evaluate": "evaluation",
    "load_policy": "loading",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
