"""Libraries that step many environments with one call: what ``environment.backend`` names.

Importing this package imports none of them, and no Gymnasium.
"""

from __future__ import annotations

import inspect

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.backends.backend import Backend, VectorStep, refuse_untaken
from fast_core.errors import ConfigError
from fast_core.system.importing import named

__all__ = ["Backend", "VectorStep", "backend_class", "imported", "make_backend"]

_KEY = "environment.backend"
_SHORT = {
    "gymnasium_vector": "fast_core.envs.backends.gymnasium_vector:GymnasiumVector",
    "envpool": "fast_core.envs.backends.envpool:EnvPool",
}
_LIBRARIES = {"envpool": ("envpool",)}


def backend_class(config: EnvironmentConfig) -> type[Backend]:
    """What steps the environments of ``config``, where they are not made one by one.

    Raises:
        ConfigError: There is no such class, or it is no whole backend.
    """
    kind = named(_SHORT.get(config.backend, config.backend), _KEY)
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        what = "another class" if isinstance(kind, type) else "no class"
        raise ConfigError(
            f"{_KEY} must name a class derived from fast_core.envs.backends.Backend; "
            f"{config.backend!r} is {what}. Derive it, or put one round it that is."
        )
    needed = {
        "step_into" if kind.in_place else "step": True,
        "begin": kind.partial,
        "set_attributes": "attributes" in kind.takes,
    }
    lacks = {name for name in needed if needed[name] and _is_backends(kind, name)}
    if lacks := lacks | kind.__abstractmethods__:
        raise ConfigError(
            f"{_KEY} {config.backend!r} lacks {' and '.join(sorted(lacks))}, for it says that "
            f"partial = {kind.partial}, in_place = {kind.in_place}, takes = {sorted(kind.takes)}. "
            "Write what is missing, see fast_core.envs.backends.Backend, or say less."
        )
    return kind


def _is_backends(kind: type[Backend], name: str) -> bool:
    return getattr(kind, name) is getattr(Backend, name)


def imported(config: EnvironmentConfig) -> tuple[str, ...]:
    """What every process that makes the environments of ``config`` imports, besides Gymnasium."""
    module, colon, _ = config.backend.partition(":")
    return (module,) if colon else _LIBRARIES.get(config.backend, ())


def make_backend(config: EnvironmentConfig, envs: int, *, draws: bool) -> Backend:
    """Make ``envs`` environments of ``config``, which draw themselves if they can and ``draws``.

    Raises:
        ConfigError: They can't be made so, or it is no whole backend.
        Exception: Whatever a constructor raises.
    """
    kind = backend_class(config)
    refuse_untaken(config, kind)
    try:
        inspect.signature(kind).bind(config, envs, draws=draws)
    except TypeError as error:
        raise ConfigError(
            f"{_KEY} {config.backend!r} is made as {kind.__name__}(config, envs, draws=False): "
            f"{error}. Let __init__ take these."
        ) from error
    made = kind(config, envs, draws=draws)
    if not isinstance(spec := getattr(made, "spec", None), EnvironmentSpec):
        raise ConfigError(
            f"{_KEY} {config.backend!r} must set self.spec in __init__, to what "
            f"fast_core.envs.description.describe makes of its spaces; got {spec!r}."
        )
    if made.in_place and not made.partial:
        raise ConfigError(
            f"{_KEY} {config.backend!r} has in_place without partial, but whoever writes the true "
            "successors must begin the next episodes when asked. Set in_place to False."
        )
    return made
