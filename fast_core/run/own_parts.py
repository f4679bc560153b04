"""The user's parts of a run: each is made and asked in the launcher, nodes know what it said.

So a node does not import the module of a part, unless it is one of that part's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fast_core.config import PartConfig, RunConfig, Values
from fast_core.errors import TopologyError
from fast_core.memory import Structure
from fast_core.run.names import Role
from fast_core.run.plan import Part, RunPlan
from fast_core.system.importing import named
from fast_core.system.text import error_text


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
        """The structures that it adds, asked of the part itself; they are kept in the plan.

        Raises:
            TopologyError: It failed.
        """
        try:
            return tuple(self._made.structures(plan))
        except BaseException as error:  # a user's code may raise anything
            text = f"{self.at} ({self.key}): structures() raised {error_text(error)}"
            raise TopologyError(text) from error

    def private_nbytes(self, plan: RunPlan) -> int:
        """As it says; like what follows it is asked in the launcher alone."""
        return self._made.private_nbytes(plan)

    def identity(self, config: RunConfig) -> Mapping[str, object]:
        """As it says."""
        return self._made.identity(config)

    def check(self, plan: RunPlan) -> None:
        """As it does."""
        self._made.check(plan)

    @property
    def _made(self) -> Part:
        return _make(self.path, self.at, self.key, self.settings)


def own_parts(config: RunConfig) -> tuple[OwnPart, ...]:
    """The parts that ``nodes.parts`` names, each asked for its nodes.

    Raises:
        ConfigError: One can't be imported.
        TopologyError: One is no part, has the key of another, or brings what is no node's role.
    """
    found: dict[str, OwnPart] = {}
    for index, each in enumerate(config.nodes.parts):
        at, key = f"nodes.parts[{index}]", each.part_key
        if key in found:
            raise TopologyError(
                f"two parts have the key {key!r}: {found[key].at} and {at}. Give one of them "
                "another: `key: ...`"
            )
        roles = _roles(each, config, at)
        found[key] = OwnPart(key, each.settings, each.part, at, roles)
    return tuple(found.values())


def _make(path: str, at: str, key: str, settings: Values) -> Part:
    kind = named(path, f"{at}.part")
    if not (isinstance(kind, type) and issubclass(kind, Part)):
        raise TopologyError(
            f"{at}.part {path!r} is not a subclass of fast_core.node.Part; got {kind!r}. A node by "
            "itself belongs into nodes.extra"
        )
    return kind(key, settings)


def _roles(each: PartConfig, config: RunConfig, at: str) -> tuple[Role, ...]:
    part = _make(each.part, at, each.part_key, each.settings)
    try:
        roles = tuple(part.roles(config))
    except BaseException as error:  # a user's code may raise anything
        text = f"{at} ({each.part_key}): roles() raised {error_text(error)}"
        raise TopologyError(text) from error
    for role in roles:
        if type(role) is not Role or role.kind or role.spare:
            raise TopologyError(
                f"{at} ({each.part_key}): roles() must yield fast_core.node.Role without `kind` "
                f"and `spare`, which are FastLoop's own; got {role!r}"
            )
    return tuple(role._replace(settings=role.settings or each.settings) for role in roles)
