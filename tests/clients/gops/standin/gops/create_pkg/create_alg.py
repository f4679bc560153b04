"""Algorithms by name."""

from __future__ import annotations

from typing import Any

from gops.algorithm.dsac import DSAC
from gops.algorithm.dsact import DSACT
from gops.algorithm.ppo import PPO
from gops.algorithm.td3 import TD3
from gops.create_pkg.making import make

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (DSAC, DSACT, PPO, TD3)}


def create_alg(**kwargs: Any) -> Any:
    return make(_KINDS[kwargs["algorithm"]], "num_algs", **kwargs)


def create_networks(**kwargs: Any) -> Any:
    """Those of an algorithm, for who acts with them."""
    return _KINDS[kwargs["algorithm"]].container(**kwargs)
