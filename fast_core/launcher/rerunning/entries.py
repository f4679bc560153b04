"""Which events of a run are recorded, what of them, and how a rerun's are compared with them."""

from __future__ import annotations

import zlib

import msgspec

from fast_core.messages import (
    Changed,
    Envelope,
    Evaluated,
    Event,
    Failed,
    Late,
    Left,
    NodeExited,
    Noted,
    Ready,
    Restoring,
    RolloutReady,
    Saved,
    SnapshotTaken,
    Trained,
    Transformed,
)
from fast_core.messages.launching import (
    Acted,
    CheckpointWritten,
    LauncherEvent,
    Requested,
    ScaleRequested,
    StopRequested,
    Tick,
    Told,
)
from fast_core.run.schedule import Entry

# What the scheduler is never given, takes in any order, or refuses where a run is recorded.
UNRECORDED = (Restoring, Late, ScaleRequested, Acted, Left)
# What no node of a rerun gives: it comes from outside, or of saving, which a rerun leaves out.
FROM_OUTSIDE = (
    Tick,
    Told,
    Requested,
    StopRequested,
    NodeExited,
    Noted,
    Saved,
    CheckpointWritten,
)
_encode = msgspec.msgpack.Encoder().encode


def entry(event: Event | LauncherEvent, now_s: float, version: int = -1) -> Entry:
    """How ``event`` is recorded."""
    replace = msgspec.structs.replace
    match event:
        case RolloutReady():
            check = _results(event)
            event = replace(event, episode_returns=(), episode_lengths=(), episode_infos=())
            return Entry(now_s, event, check)
        case Evaluated():
            check = _results(event)
            return Entry(
                now_s, replace(event, returns=(), lengths=(), info={}, others={}, video=""), check
            )
        case Trained(metrics=metrics):
            timed = {name: value for name, value in metrics.items() if _is_time(name)}
            return Entry(now_s, replace(event, metrics=timed))
        case _:
            return Entry(now_s, event, version=version)  # type: ignore[arg-type]


def _is_time(name: str) -> bool:
    """Whether a metric, or a field, says how long something took, which the scheduler may go by."""
    return name.endswith(("_ms", "_s"))


def _results(event: RolloutReady | Evaluated) -> int:
    if isinstance(event, RolloutReady):
        return zlib.crc32(_encode((event.episode_returns, event.episode_lengths)))
    return zlib.crc32(_encode((event.returns, event.lengths)))


def key(event: Event | LauncherEvent) -> tuple[object, ...]:
    """What an event of a rerun has alike with the recorded one that it stands for."""
    match event:
        case RolloutReady():
            return "rollout", event.shard, event.incarnation, event.rollout_id
        case Trained(ticket=ticket):
            return "trained", ticket
        case SnapshotTaken(request=number) | Evaluated(request=number) | Changed(number=number):
            return type(event).__name__, event.node, number
        case Transformed(node, ref):
            return "transformed", node, ref.shard, ref.rollout_id
        case Ready(node) | Failed(node) | Envelope(node=node):
            return type(event).__name__, node
        case _:
            return (type(event).__name__,)


def given(event: Event | LauncherEvent, recorded: Entry) -> Event | LauncherEvent:
    """What the scheduler is given for ``event``: it takes its times from the record."""
    then = recorded.event
    if not (isinstance(event, Trained) and isinstance(then, Trained)):
        return event
    times = {name: getattr(then, name) for name in then.__struct_fields__ if _is_time(name)}
    metrics = {**event.metrics, **then.metrics}
    return msgspec.structs.replace(event, metrics=metrics, **times)


def difference(event: Event | LauncherEvent, recorded: Entry) -> str | None:
    """What came out otherwise than recorded, a sentence; None if nothing did."""
    then = recorded.event
    match event:
        case RolloutReady() if isinstance(then, RolloutReady):
            where = f"rollout {event.rollout_id} of shard {event.shard} ({event.node})"
            if event.version != then.version:
                return f"{where} acted with version {event.version}, recorded is {then.version}"
            if _results(event) != recorded.check:
                return (
                    f"{where} has other episodes than recorded: the environment, or code that it "
                    "uses, does not repeat under its seed, or has changed"
                )
        case Trained() if isinstance(then, Trained):
            for name in ("version", "updates", "skipped", "checksum", "digest"):
                now, before = getattr(event, name), getattr(then, name)
                if now != before:
                    other = {"checksum": "other weights", "digest": "another learner state"}
                    said = other.get(name, f"{name} {now}, not {before},")
                    return (
                        f"the update of ticket {event.ticket}, to version {event.version}, gave "
                        f"{said} than recorded: the algorithm's code, or rows of an environment, "
                        "came out otherwise"
                    )
        case SnapshotTaken(version=version) if isinstance(then, SnapshotTaken):
            if version != then.version:
                return (
                    f"evaluation {event.request} got version {version}, recorded is {then.version}"
                )
        case Evaluated() if _results(event) != recorded.check:
            return (
                f"evaluation {event.request} has other episodes than recorded: the environment, "
                "or code that it uses, does not repeat under its seed, or has changed"
            )
    return None
