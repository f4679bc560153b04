"""The user's nodes: their classes, and which rollouts and messages go to them.

The launcher imports their modules, so that a mistake is found before anything starts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fast_core.config import PAGE, ExtraNodeConfig, RunConfig
from fast_core.errors import ConfigError, TopologyError
from fast_core.messages import (
    Followed,
    Message,
    Ready,
    Save,
    Saved,
    Train,
    Transform,
    Transformed,
    UserMessage,
)
from fast_core.messages.wire import MessageReader, kind_of
from fast_core.nodes.node import Node
from fast_core.run.names import KINDS, Role
from fast_core.run.own_parts import own_parts
from fast_core.scheduler.settings import Route
from fast_core.system.importing import named

# A command, and the event that answers it; everything else goes to FastLoop's own nodes.
ANSWERS: dict[type[Message], type[Message]] = {
    Transform: Transformed,
    Train: Followed,
    Save: Saved,
}
# Why a run waits for whoever takes these.
_NEEDED: dict[type[Message], str] = {
    Transform: "rollouts are trained on when it has them",
    Train: "a ticket is settled when it has answered",
    Save: "a checkpoint is whole when it has its part",
}
STAGE = "fast_core.nodes.rollout_stage.RolloutStage"
M = TypeVar("M", bound=Message)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TAKEN = re.compile(rf"(({'|'.join(KINDS)})(-\d+)?)")
_OURS = ("launcher", "scheduler", "callbacks", "probe", "fork-server", "fork server", "watchdog")


@dataclass(frozen=True)
class ExtraNode:
    """One of the user's nodes.

    Attributes:
        name: Its name in the run.
        key: Where it stands in the configuration.
        kind: Its class.
    """

    name: str
    key: str
    kind: type[Node]


@dataclass(frozen=True)
class Wiring:
    """What goes to the user's nodes.

    Attributes:
        stages: Those that take rollouts, in order.
        followers: Those that take tickets.
        savers: Those that have a part of a checkpoint.
        optional: Those that the run goes on without.
        routes: Where their messages go.
    """

    stages: tuple[str, ...]
    followers: tuple[str, ...]
    savers: tuple[str, ...]
    optional: tuple[str, ...]
    routes: tuple[Route, ...]


def node_class(path: str, key: str = "the node class") -> type[Node]:
    """Import a node class.

    Raises:
        TopologyError: There is no such class, or it is no `Node`, or an unfinished one.
    """
    try:
        found = named(path, key)
    except ConfigError as error:
        raise TopologyError(str(error)) from error
    if not (isinstance(found, type) and issubclass(found, Node)):
        raise TopologyError(
            f"{key} {path!r} is not a subclass of fast_core.nodes.node.Node; got {found!r}"
        )
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise TopologyError(f"{key} {path!r} lacks {lacking}: write it, as the base class says")
    return found


def extra_nodes(extras: Sequence[ExtraNodeConfig]) -> tuple[ExtraNode, ...]:
    """Import the user's nodes and check each of them.

    Raises:
        TopologyError: A name is taken or unusable, or a class is none or contradicts itself.
    """
    nodes: dict[str, ExtraNode] = {}
    for index, extra in enumerate(extras):
        key = "dashboard.enabled" if extra is PAGE else f"nodes.extra[{index}]"
        name = extra.node_name
        _check_name(name, key, nodes)
        kind = node_class(extra.node, f"{key}.node")
        _check_declaration(kind, key)
        nodes[name] = ExtraNode(name, key, kind)
    return tuple(nodes.values())


def users_nodes(config: RunConfig) -> tuple[ExtraNode, ...]:
    """Import all nodes of the user's, those of parts too, and check each of them.

    Raises:
        TopologyError: As `extra_nodes`, or the run could not survive the deaths that a role allows.
    """
    extras = extra_nodes(config.added_nodes)
    nodes = {node.name: node for node in extras}
    for part in own_parts(config):
        for role in part.brought:
            _check_name(role.name, part.at, nodes)
            kind = node_class(role.node_class, f"{part.at}: the class of {role.name!r}")
            _check_declaration(kind, part.at)
            _check_deaths(role, kind, part.at)
            nodes[role.name] = ExtraNode(role.name, part.at, kind)
    return tuple(nodes.values())


def _check_deaths(role: Role, kind: type[Node], key: str) -> None:
    """Only a node that can begin anew comes back."""
    if not role.deaths:
        return
    who = f"{key}: `deaths` of {role.name!r} is {role.deaths}"
    if not kind.essential:
        raise TopologyError(
            f"{who}, but {kind.__name__} is not `essential`: it is started anew anyway. Leave "
            "`deaths` out"
        )
    for command in {Transform, Save} & kind.consumes:
        raise TopologyError(
            f"{who}, but {kind.__name__} consumes {command.__name__}: what it has of it dies with "
            "it. Leave `deaths` out"
        )


def _check_name(name: str, key: str, others: dict[str, ExtraNode]) -> None:
    set_it = "the `name` of its Role" if key.startswith("nodes.parts") else "`name: ...`"
    if name in others and key == "dashboard.enabled":
        raise TopologyError(
            f"{others[name].key}: the name {name!r} is that of the page, which dashboard.enabled "
            "serves. Give the node another: `name: ...`"
        )
    if name in others:
        raise TopologyError(
            f"two nodes are named {name!r}: {others[name].key} and {key}. Give one of them "
            f"another name: {set_it}"
        )
    if _TAKEN.fullmatch(name) or name in _OURS:
        raise TopologyError(
            f"{key}: the name {name!r} is FastLoop's own. Give the node another: {set_it}"
        )
    if not _NAME.fullmatch(name):
        raise TopologyError(
            f"{key}: a node's name names its log file, so it must have 1 to 64 letters, digits, "
            f"'_', '-' or '.', the first a letter or digit; got {name!r}. Set {set_it}"
        )


def _check_declaration(kind: type[Node], key: str) -> None:
    who = f"{key} ({kind.__name__})"
    messages = _is_message, "message classes, such as frozenset({Transform})"
    names = _is_name, 'names of structures, such as frozenset({"trajectories"})'
    rules = {"consumes": messages, "emits": messages, "reads": names, "writes": names}
    for attribute, (fits, what) in rules.items():
        declared = getattr(kind, attribute)
        if not isinstance(declared, frozenset | set) or not all(map(fits, declared)):
            raise TopologyError(
                f"{who}: `{attribute}` must be a frozenset of {what}; got {declared!r}"
            )
    foreign = [m for m in kind.consumes if m not in ANSWERS and not issubclass(m, UserMessage)]
    for message in _sorted(foreign):
        raise TopologyError(
            f"{who} consumes {message.__name__}, but nobody sends it that: of the scheduler's "
            f"commands a node of your own may take {_names(ANSWERS)}. Take {message.__name__} out "
            "of its `consumes`"
        )
    own: list[type[Message]] = [*ANSWERS.values(), Ready]
    foreign = [m for m in kind.emits if m not in own and not issubclass(m, UserMessage)]
    for message in _sorted(foreign):
        raise TopologyError(
            f"{who} emits {message.__name__}, but the scheduler does not consume it from a node "
            f"of your own; it takes {_names(own)}. Take {message.__name__} out of its `emits`, or "
            "send a message of your own: a subclass of fast_core.messages.UserMessage"
        )
    _check_essential(kind, who)
    for command, answer in ANSWERS.items():
        if command in kind.consumes and answer not in kind.emits:
            raise TopologyError(
                f"{who} consumes {command.__name__} but does not emit {answer.__name__}, which the "
                f"scheduler waits for. Send one for every {command.__name__} and add "
                f"{answer.__name__} to its `emits`"
                + ("" if command is Train else f", or subclass {STAGE}, which does")
            )
        if answer in kind.emits and command not in kind.consumes:
            raise TopologyError(
                f"{who} emits {answer.__name__} but does not consume {command.__name__}, which it "
                f"answers. Add {command.__name__} to its `consumes`"
            )
    try:
        MessageReader({*kind.consumes, *kind.emits})
    except (TypeError, NameError) as error:
        raise TopologyError(
            f"{who}: a message of its own can't travel: {error}. Its fields must be numbers, "
            "text, bytes, or tuples, lists, dicts and structs of those"
        ) from error


def _check_essential(kind: type[Node], who: str) -> None:
    if not isinstance(kind.essential, bool):
        raise TopologyError(f"{who}: `essential` must be True or False; got {kind.essential!r}")
    if kind.essential:
        return
    for command, why in _NEEDED.items():
        if command in kind.consumes:
            raise TopologyError(
                f"{who} is not `essential` but consumes {command.__name__}: {why}, so the run "
                f"can't go on without the node. Take {command.__name__} out of its `consumes`, or "
                "`essential = False` out of the class"
            )


def check_messages(nodes: Sequence[ExtraNode]) -> None:
    """Check that every message of the user's has a sender and a receiver.

    Raises:
        TopologyError: Names the message, the node and what to write.
    """
    consumed, emitted = _of(nodes, "consumes"), _of(nodes, "emits")
    for node in nodes:
        who = f"{node.key} ({node.kind.__name__})"
        for message in _sorted(_own(node.kind.emits) - consumed.keys()):
            raise TopologyError(
                f"{who} emits {message.__name__}, but no node consumes it. Add {message.__name__} "
                "to the `consumes` of the node that should handle it, and that node to "
                f"nodes.extra; nodes there: {_listed(nodes)}"
            )
        for message in _sorted(_own(node.kind.consumes) - emitted.keys()):
            raise TopologyError(
                f"{who} consumes {message.__name__}, but no node emits it. Add {message.__name__} "
                "to the `emits` of the node that sends it, and that node to nodes.extra; nodes "
                f"there: {_listed(nodes)}"
            )
    kinds: dict[str, type[UserMessage]] = {}
    for message in (*consumed, *emitted):
        if kinds.setdefault(kind_of(message), message) is not message:
            raise TopologyError(
                f"two messages are called {kind_of(message)!r}. Define each at the top of a module"
            )


def wiring(nodes: Sequence[ExtraNode]) -> Wiring:
    """Which rollouts and messages go to the user's nodes."""
    consumed, emitted = _of(nodes, "consumes"), _of(nodes, "emits")
    return Wiring(
        stages=tuple(node.name for node in nodes if Transform in node.kind.consumes),
        followers=tuple(node.name for node in nodes if Train in node.kind.consumes),
        savers=tuple(node.name for node in nodes if Save in node.kind.consumes),
        optional=tuple(node.name for node in nodes if not node.kind.essential),
        routes=tuple(
            Route(kind_of(message), tuple(emitted.get(message, ())), tuple(receivers))
            for message, receivers in consumed.items()
        ),
    )


def _of(nodes: Sequence[ExtraNode], attribute: str) -> dict[type[UserMessage], list[str]]:
    """Names of the nodes that consume, or emit, each message of the user's."""
    found: dict[type[UserMessage], list[str]] = {}
    for node in nodes:
        for message in _sorted(_own(getattr(node.kind, attribute))):
            found.setdefault(message, []).append(node.name)
    return found


def _own(declared: Iterable[type[Message]]) -> set[type[UserMessage]]:
    return {message for message in declared if issubclass(message, UserMessage)}


def _is_message(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Message)


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _sorted(messages: Iterable[type[M]]) -> list[type[M]]:
    return sorted(messages, key=lambda message: (message.__name__, message.__module__))


def _names(messages: Iterable[type[Message]]) -> str:
    return ", ".join(message.__name__ for message in messages)


def _listed(nodes: Sequence[ExtraNode]) -> str:
    return ", ".join(f"{node.name} ({node.kind.__name__})" for node in nodes)
