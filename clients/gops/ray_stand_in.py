"""What GOPS gets as its module `ray`: it makes notes of actors, and starts nothing.

GOPS makes samplers, buffers, algorithms and evaluators by ``ray.remote(...)(cls).remote(...)`` and
calls ``actor.method.remote(...)``. Here an actor is a `Recipe`: whoever runs it makes the object,
in whichever process it shall live, with the calls that were asked for until then.

What FastLoop doesn't take over (a trainer of GOPS's own) reaches Ray itself, if it is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from fast_core.errors import ConfigError


@dataclass
class Recipe:
    """How to make an object of GOPS's.

    Attributes:
        creator: Its class.
        arguments: Its arguments by position.
        keywords: Those by name.
        calls: Methods to call at once when it is made, with their arguments.
    """

    creator: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def make(self) -> Any:
        """The object, in this process."""
        made = self.creator(*self.arguments, **self.keywords)
        for name, arguments, keywords in self.calls:
            getattr(made, name)(*arguments, **keywords)
        return made


class Actor:
    """A handle as Ray gives it; nothing runs behind it."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __getattr__(self, name: str) -> _Method:
        if name.startswith("_"):  # above all what copying and pickling look for
            raise AttributeError(name)
        return _Method(self.recipe, name)


class _Method:
    def __init__(self, recipe: Recipe, name: str) -> None:
        self._recipe, self._name = recipe, name

    def remote(self, *arguments: Any, **keywords: Any) -> None:
        """Have it called when the object is made."""
        self._recipe.calls.append((self._name, arguments, keywords))


class _Class:
    def __init__(self, creator: Callable[..., Any]) -> None:
        self._creator = creator

    def remote(self, *arguments: Any, **keywords: Any) -> Actor:
        """A handle of an object to be made."""
        return Actor(Recipe(self._creator, arguments, keywords))


class StandIn(ModuleType):
    """The module.

    Attributes:
        taking_over: Whether it stands in at the moment, or hands on to Ray.
        real: Ray, once it was needed.
    """

    def __init__(self) -> None:
        super().__init__("ray")
        self.taking_over = False
        self.real: ModuleType | None = None

    def init(self, *arguments: Any, **keywords: Any) -> Any:
        """Start nothing; or Ray, for a trainer of GOPS's own."""
        return None if self.taking_over else self._ray().init(*arguments, **keywords)

    def remote(self, *arguments: Any, **keywords: Any) -> Any:
        """As a decorator of a class: what gives handles of its objects."""
        if not self.taking_over:
            return self._ray().remote(*arguments, **keywords)
        return _Class(*arguments) if arguments else _Class

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._ray(), name)

    def _ray(self) -> Any:
        if self.real is None:
            with _named_ray(None):
                try:
                    self.real = importlib.import_module("ray")
                except ImportError as error:
                    raise ConfigError(
                        "a trainer of GOPS's own asks for ray, which isn't installed. Have "
                        "FastLoop take its place: `fastloop gops SCRIPT.py`, or install("
                        "serial=True) before anything is imported from gops.create_pkg."
                    ) from error
        return self.real


STAND_IN = StandIn()


@contextlib.contextmanager
def standing_in(*, taking_over: bool) -> Iterator[None]:
    """Be what `import ray` gives; elsewhere a program that uses Ray gets Ray."""
    before = STAND_IN.taking_over
    STAND_IN.taking_over = taking_over
    try:
        with _named_ray(STAND_IN):
            yield
    finally:
        STAND_IN.taking_over = before


@contextlib.contextmanager
def _named_ray(module: ModuleType | None) -> Iterator[None]:
    """Have ``module`` under that name, or with None what is installed."""
    before = sys.modules.pop("ray", None)
    if module is not None:
        sys.modules["ray"] = module
    elif before is not None and before is not STAND_IN:
        sys.modules["ray"] = before
    try:
        yield
    finally:
        sys.modules.pop("ray", None)
        after = before or STAND_IN.real
        if after is not None:
            sys.modules["ray"] = after
