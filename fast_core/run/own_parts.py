"""The user's parts of a run: each is made and asked in the launcher, nodes know what it said.

So a node does not import the module of a part, unless it is one of that part's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any, TypeVar

import msgspec

from fast_core.config import RunConfig
from fast_core.errors import FastLoopError, TopologyError
from fast_core.memory import Structure
from fast_core.run.names import Role
from fast_core.run.plan import Part, RunPlan
from fast_core.system.importing import named
from fast_core.system.text import error_text

T = TypeVar("T")


@dataclass(frozen=True)
class OwnPart(Part):
    """What a part of the user's brings, as it said.

    Attributes:
        path: Its class, as ``package.module:Class``.
        at: Where it stands in the configuration.
        brought: Its nodes.
    """

    path: str = ""
    at: str = ""
    brought: tuple[Role, ...] = ()

    def roles(self, config: RunConfig) -> tuple[Role, ...]:
        """As it said."""
        return self.brought

    def rows(self, plan: RunPlan) -> Sequence[Structure]:
        """The structures that it adds, asked of the part itself; they are kept in the plan."""
        return self.ask("structures", plan, tuple)

    def private_nbytes(self, plan: RunPlan) -> int:
        """As it says; like what follows it is asked in the launcher alone."""
        return self.ask("private_nbytes", plan, index)

    def identity(self, config: RunConfig) -> Mapping[str, object]:
        """As it says."""
        return self.ask("identity", config, _written)

    def check(self, plan: RunPlan) -> None:
        """As it does."""
        self.ask("check", plan, bool)

    def ask(self, method: str, about: RunConfig | RunPlan, cast: Callable[[Any], T]) -> T:
        """What a method of the part itself says, as ``cast`` takes it.

        Raises:
            FastLoopError: It can't be imported, refuses the run, or failed.
        """
        kind = named(self.path, f"{self.at}.part")
        if not (isinstance(kind, type) and issubclass(kind, Part)):
            raise TopologyError(
                f"{self.at}.part {self.path!r} is not a subclass of fast_core.node.Part; got "
                f"{kind!r}. A node by itself belongs into nodes.extra"
            )
        try:
            return cast(getattr(kind(self.key, self.settings), method)(about))
        except FastLoopError:
            raise
        except BaseException as error:  # a user's code may raise anything
            text = f"{self.at} ({self.key}): {method}() raised {error_text(error)}"
            raise TopologyError(text) from error


def own_parts(config: RunConfig) -> tuple[OwnPart, ...]:
    """The parts that ``nodes.parts`` names, each asked for its nodes.

    Raises:
        ConfigError: One can't be imported.
        TopologyError: One is no part, has the key of another, or brings what is no node's role.
    """
    found: dict[str, OwnPart] = {}
    for place, each in enumerate(config.nodes.parts):
        at, key = f"nodes.parts[{place}]", each.part_key
        if key in found:
            raise TopologyError(
                f"two parts have the key {key!r}: {found[key].at} and {at}. Give one of them "
                "another: `key: ...`"
            )
        part = OwnPart(key, each.settings, each.part, at)
        found[key] = replace(part, brought=_roles(part, config))
    return tuple(found.values())


def _written(values: Mapping[str, object]) -> Mapping[str, object]:
    msgspec.json.encode(values, order="sorted")  # as a checkpoint keeps them
    return values


def _roles(part: OwnPart, config: RunConfig) -> tuple[Role, ...]:
    roles: tuple[Any, ...] = part.ask("roles", config, tuple)
    for role in roles:
        if not (type(role) is Role and _fits(role)):
            raise TopologyError(
                f"{part.at} ({part.key}): roles() must yield fast_core.node.Role with a name and a "
                "class, and of the rest with `threads` and `deaths` (0 or more) and `settings` "
                f"alone, as all other is FastLoop's own; got {role!r}"
            )
    return tuple(role._replace(settings=role.settings or part.settings) for role in roles)


def _fits(role: Any) -> bool:
    name, node_class, numbers = role.name, role.node_class, (role.threads, role.deaths)
    own = Role(name, node_class, "", 0, "", *numbers, settings=role.settings)
    kinds = isinstance(name, str), isinstance(node_class, str), isinstance(role.settings, Mapping)
    return all(kinds) and role == own and all(isinstance(n, int) and n >= 0 for n in numbers)
