"""Which algorithms exist, and their configuration types. Imports neither torch nor learners."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass

from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError


@dataclass(frozen=True)
class Registration:
    """Where an algorithm's configuration type lives, as ``module:Class``."""

    config: str


REGISTRY: dict[str, Registration] = {
    "ppo": Registration(config="algos.ppo_config:PPOConfig"),
}


def algorithm_config_type(name: str) -> type[AlgorithmConfig]:
    """Return the configuration type of a registered algorithm or of an import path.

    Args:
        name: A key of `REGISTRY`, or ``"package.module:Class"`` of a user's algorithm.

    Raises:
        ConfigError: If nothing has this name, or what it names is not an `AlgorithmConfig`.
    """
    if ":" in name:
        return _load(name)
    registration = REGISTRY.get(name)
    if registration is None:
        near = difflib.get_close_matches(name, REGISTRY, n=1, cutoff=0.0)
        raise ConfigError(
            f"algorithm.name must be one of {sorted(REGISTRY)} or an import path "
            f"'package.module:Class'; got {name!r}. Did you mean {near[0]!r}?"
        )
    return _load(registration.config)


def _load(path: str) -> type[AlgorithmConfig]:
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"algorithm.name {path!r} can't be imported: {error}. It must be "
            "'package.module:Class' on the import path."
        ) from error
    if not (isinstance(found, type) and issubclass(found, AlgorithmConfig)):
        raise ConfigError(
            f"algorithm.name {path!r} must name a subclass of fast_core.config.AlgorithmConfig; "
            f"got {found!r}."
        )
    return found
