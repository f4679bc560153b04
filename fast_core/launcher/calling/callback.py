"""The callbacks of a run, as the configuration or a caller gives them, and whether they are any."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from fast_core.callbacks import METHODS
from fast_core.config import CallbackConfig
from fast_core.errors import ConfigError
from fast_core.system.importing import named

STATE_METHODS = ("state_dict", "load_state_dict")


@dataclass(frozen=True)
class Callback:
    """A callback.

    Attributes:
        name: Its class, as ``module:Class``.
        target: The object.
    """

    name: str
    target: object

    def method(self, name: str) -> Callable[..., object] | None:
        """A method of it, None if it has none of this name."""
        found = getattr(self.target, name, None)
        return cast("Callable[..., object]", found) if callable(found) else None


def check_named(callbacks: Sequence[CallbackConfig]) -> None:
    """Check what can be checked of a configuration's callbacks before any is made.

    Raises:
        ConfigError: There is no such class, it takes other arguments, or has no method of one.
    """
    for index, callback in enumerate(callbacks):
        key = f"callbacks[{index}]"
        kind = named(callback.name, f"{key}.name")
        if not callable(kind):
            raise ConfigError(
                f"{key}.name {callback.name!r} must be a class, or a function that makes a "
                f"callback; got {kind!r}"
            )
        if isinstance(kind, type):
            check_methods(kind, f"{key} {callback.name!r}")
        try:
            inspect.signature(kind).bind(**callback.kwargs)
        except TypeError as error:
            takes = ", ".join(inspect.signature(kind).parameters) or "none"
            raise ConfigError(
                f"{key}.kwargs do not fit {callback.name!r}: {error}. It takes: {takes}"
            ) from error
        except ValueError:  # of a class in C, which has no signature
            pass


def make_named(callback: CallbackConfig, index: int) -> Callback:
    """Make a callback of the configuration; whatever its constructor raises passes."""
    kind = cast("Callable[..., object]", named(callback.name, f"callbacks[{index}].name"))
    made = Callback(callback.name, kind(**callback.kwargs))
    check_methods(made.target, f"callbacks[{index}] {callback.name!r}")
    return made


def of_objects(targets: Sequence[object], first: int) -> list[Callback]:
    """Callbacks that were given as objects; ``first`` is the place of the first one.

    Raises:
        ConfigError: They are no list, or one of them is no callback.
    """
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise ConfigError(
            f"callbacks must be a list of callbacks; got {targets!r}. Put it into one: "
            "callbacks=[...]"
        )
    return [_of_object(target, first + index) for index, target in enumerate(targets)]


def _of_object(target: object, index: int) -> Callback:
    """A callback that was given as an object.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(target, type):
        raise ConfigError(
            f"callbacks[{index}] must be an object; got the class {target.__qualname__}. Make one: "
            f"{target.__name__}()"
        )
    made = Callback(f"{type(target).__module__}:{type(target).__qualname__}", target)
    check_methods(made.target, f"callbacks[{index}] {made.name!r}")
    return made


def check_methods(target: object, who: str) -> None:
    """Check the methods of a callback, or of its class before there is one.

    Raises:
        ConfigError: It has none, or one that is misspelt or can't be called as they are.
    """
    own = [name for name in dir(target) if name.startswith("on_")]
    listed = ", ".join(METHODS)
    for name in (name for name in own if name not in METHODS):
        near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.0)
        raise ConfigError(
            f"{who} has a method {name}, which is never called. Nearest: {near[0]!r}; a callback "
            f"has any of {listed}. Rename it"
        )
    if not own:
        raise ConfigError(f"{who} is no callback: it has none of the methods {listed}")
    for name in METHODS:
        method = getattr(target, name, None)
        if callable(method):
            _check_callable(method, name, who, unbound=_wants_self(target, name))
    has = [name for name in STATE_METHODS if callable(getattr(target, name, None))]
    if len(has) == 1:
        (lacks,) = {*STATE_METHODS} - {*has}
        raise ConfigError(f"{who} has {has[0]} but not {lacks}: write both, or none")


def _check_callable(method: Callable[..., object], name: str, who: str, *, unbound: bool) -> None:
    if inspect.iscoroutinefunction(method):
        raise ConfigError(f"{who}: {name} must be a plain method; it is `async def`")
    try:
        inspect.signature(method).bind(*(None,) * (2 + unbound))
    except TypeError as error:
        raise ConfigError(
            f"{who}: {name} must take what happened and the run, "
            f"`def {name}(self, {name.removeprefix('on_')}, run)`; it takes "
            f"{inspect.signature(method)}"
        ) from error


def _wants_self(target: object, name: str) -> bool:
    return isinstance(target, type) and inspect.isfunction(inspect.getattr_static(target, name))
