"""What goes over the control socket: one request, then answers, each a line of JSON.

A request that takes time is accepted first and answered again when it is done. When the launcher
closes the connection, the run has ended.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fast_core.errors import TransportError
from fast_core.system.decoding import JsonDecoder

REQUEST_BYTES = 4096  # of one request; no honest one comes near


class Request(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """Base of what may be asked."""


class StatusRequest(Request, frozen=True, tag="status"):
    """How is the run?"""


class StopRequest(Request, frozen=True, tag="stop"):
    """End in order, as after Ctrl-C."""


class SaveRequest(Request, frozen=True, tag="save"):
    """Write a checkpoint as soon as it is possible."""


class ScaleRequest(Request, frozen=True, tag="scale"):
    """Have more nodes of a kind, or fewer.

    Attributes:
        kind: ``env`` or another kind.
        count: How many there shall be.
        relative: It is added to how many there are.
    """

    kind: str
    count: int
    relative: bool = False


AnyRequest = StatusRequest | StopRequest | SaveRequest | ScaleRequest


class NodeStatus(msgspec.Struct, frozen=True):
    """How a node is.

    Attributes:
        name: Its name.
        state: What it is doing, in a word; ``dead`` or ``away`` where it is not there.
        doing_s: For how long.
        busy_s: Seconds of work in this life, what it is doing included.
        waiting_s: Likewise of waiting.
        life: The number of its life, one more after each death.
    """

    name: str
    state: str
    doing_s: float
    busy_s: float
    waiting_s: float
    life: int = 1


class Status(msgspec.Struct, frozen=True):
    """How a run is.

    Attributes:
        phase: What the scheduler is about.
        env_steps: Environment steps trained on.
        env_steps_per_s: Their rate of late.
        degree: ``off_policy_degree`` at the moment.
        elapsed_s: Seconds of training, earlier parts of the run included.
        env_nodes: Env nodes that execute shards; None where it is of another version, which does
            not say so.
        updates: Optimizer steps; likewise.
        nodes: Every node; none where it is of another version.
    """

    phase: str
    env_steps: int
    env_steps_per_s: float
    degree: int
    elapsed_s: float
    env_nodes: int | None = None
    updates: int | None = None
    nodes: tuple[NodeStatus, ...] = ()


Kind = Literal["accepted", "done", "refused"]


class Answer(msgspec.Struct, frozen=True):
    """What comes of a request.

    Attributes:
        kind: ``accepted`` is followed by another one, or by the end of the run.
        text: The same for people.
        path: The checkpoint that was asked for.
        status: What was asked for.
    """

    kind: Kind
    text: str = ""
    path: str = ""
    status: Status | None = None


_request: JsonDecoder[AnyRequest] = JsonDecoder(AnyRequest)
_answer = JsonDecoder(Answer)


def encode(message: Request | Answer) -> bytes:
    """A line."""
    return msgspec.json.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """What is asked.

    Raises:
        TransportError: It is no request.
    """
    try:
        return _request.decode(line)
    except msgspec.DecodeError as error:
        raise TransportError(f"this is no request: {error}") from error


def decode_answer(line: bytes) -> Answer:
    """What comes of it.

    Raises:
        TransportError: It is no answer.
    """
    try:
        return _answer.decode(line)
    except msgspec.DecodeError as error:
        raise TransportError(f"the run gave no answer that can be read: {error}") from error
