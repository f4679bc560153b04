"""A run whose optimizer died comes back from its newest checkpoint, in the same call.

The part that was lost has stopped its nodes and given its memory back; the next one begins as a
resume does, in the same run directory. So there is one way to load a state, and what is kept, and
what metrics, sinks and callbacks are told, is what a resume keeps and tells.
"""

from __future__ import annotations

import contextlib
import gc
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from fast_core.config import RestartsConfig, RunConfig
from fast_core.launcher.checkpoints.store import drop_abandoned, newest_valid
from fast_core.launcher.lost_part import Comeback, LostPart
from fast_core.launcher.processes.beginning import LostEarly
from fast_core.launcher.session import Continuation, Session
from fast_core.launcher.shown.trace_and_crash import add_crash
from fast_core.messages import Failed
from fast_core.monitor.checkpoint_files import complete_names
from fast_core.monitor.crash import crash_report, went_on
from fast_core.monitor.figures import count
from fast_core.monitor.view import RunSummary
from fast_core.run.names import Role, deaths_key
from fast_core.run.parts import roles_of
from fast_core.system.interrupts import Interrupts


def come_back(session: Session, lost: LostPart, checking: Callable[[], None]) -> Session:
    """The next part of a run, when its time has come.

    Args:
        session: The part that was lost.
        lost: How, and what it leaves.
        checking: Called every few milliseconds while the checkpoint is read; may raise.

    Raises:
        CheckpointError: Every checkpoint is damaged.
        Interrupted: A signal came meanwhile.
    """
    run, progress = session.run, session.progress
    again = went_on(f"it came back after the death of {lost.cause.node}")
    add_crash(run, lost.report + again, progress)
    drop_abandoned(run.checkpoints)
    continuation = None
    if complete_names(run.checkpoints):
        path, manifest, notes = newest_valid(run.checkpoints, checking)
        continuation = Continuation(path, manifest, same_directory=True)
        for note in notes:
            progress.say(note)
    env_steps = 0 if continuation is None else continuation.manifest.env_steps
    spent, budget = _budget(replace(session, config=lost.config), lost.kind, lost.deaths)
    number = spent + (lost.kind == "optimizer")  # the others' deaths hold this one
    text = f"{_story(lost, continuation)} ({number} of {budget}, {deaths_key(lost.kind)})"
    comebacks = (*session.comebacks, Comeback(lost, text, env_steps))
    progress.say(f"{text}; its report is in {run.crash}")
    _wait(wait_s(comebacks, lost.config.supervision.restarts), session.interrupts)
    if lost.page is not None:  # so that browsers that are open know the token of the next one
        with contextlib.suppress(OSError):
            msgspec.structs.replace(lost.page, pid=0).write(run.dashboard)
    gc.collect()  # the memory of the part that is over goes before the next one takes as much
    return replace(session, config=lost.config, continuation=continuation, comebacks=comebacks)


def survives_early(session: Session, error: LostEarly) -> bool:
    """Whether a run goes on although this node is gone before it has got its plan.

    A new run does so for optimizers alone; see `Life.comes_back`.
    """
    role = _possible(session.config).get(error.node)
    deaths: Mapping[str, int] = {}
    if session.comebacks:
        deaths = session.comebacks[-1].lost.deaths
    if role is None or (role.kind != "optimizer" and not session.comebacks):
        return False
    spent, budget = _budget(session, role.counted_as, deaths)
    return spent < budget


def _budget(session: Session, kind: str, deaths: Mapping[str, int]) -> tuple[int, int]:
    """How many deaths of nodes of a kind there were, and how many the run survives."""
    nodes = [role for role in _possible(session.config).values() if role.counted_as == kind]
    spent = sum(deaths.get(role.name, 0) for role in nodes)
    return session.came_back if kind == "optimizer" else spent, nodes[0].deaths


def _possible(config: RunConfig) -> dict[str, Role]:
    """All nodes that may have died, however many there are."""
    return roles_of(config, config.rollout.shards, config.rollout.shards)


def lost_early(session: Session, error: LostEarly) -> LostPart:
    """What a part leaves that has not begun: where it would have gone on, nothing is lost."""
    run, text = session.run, str(error)
    manifest = None if session.continuation is None else session.continuation.manifest
    reached = RunSummary(
        outcome="failed",
        text=text,
        run_name=session.config.name,
        run_directory=str(run.path),
        elapsed_s=0.0,
        env_steps=0 if manifest is None else manifest.env_steps,
        updates=0 if manifest is None else manifest.version,
        session_s=0.0,
        session_env_steps=0,
        session_updates=0,
        comebacks=session.came_back,
    )
    if session.comebacks:
        before = session.comebacks[-1].lost
        reached = replace(reached, deaths=before.deaths, nodes_back=before.nodes_back)
    cause = Failed(error.node, "starting", text, "", {})
    life = session.came_back + reached.deaths.get(error.node, 0) + 1
    report = crash_report(cause, incarnation=life, run_directory=str(run.path))
    earlier = session.comebacks[-1].lost.callbacks if session.comebacks else None
    kind = _possible(session.config)[error.node].counted_as
    return LostPart(session.config, cause, kind, report, reached, earlier)


def _story(lost: LostPart, continuation: Continuation | None) -> str:
    reached = lost.reached
    again = f"{count(reached.env_steps)} env steps"
    if continuation is None:
        return (
            f"{reached.text}; no checkpoint was written yet, so the run begins once more at its "
            f"start: all {again} are trained again"
        )
    manifest = continuation.manifest
    again = f"{count(reached.env_steps - manifest.env_steps)} env steps"
    return (
        f"{reached.text}; the run goes back from env step {count(reached.env_steps)} to its "
        f"checkpoint at {count(manifest.env_steps)} (version {count(manifest.version)}): {again} "
        "are trained again"
    )


def wait_s(comebacks: Sequence[Comeback], restarts: RestartsConfig) -> float:
    """How long to wait before the next part: longer each time, while parts do not live long."""
    in_a_row = 0
    for each in reversed(comebacks):
        if each.lost.reached.session_s >= restarts.max_backoff_s:
            break
        in_a_row += 1
    if in_a_row < 2:
        return 0.0
    doubled = restarts.backoff_s * 2.0 ** min(in_a_row - 2, 64)
    return min(doubled, restarts.max_backoff_s)


def _wait(time_s: float, interrupts: Interrupts) -> None:
    deadline_s = time.monotonic() + time_s
    interrupts.check()
    while (left_s := deadline_s - time.monotonic()) > 0:
        select.select([interrupts.fileno()], [], [], left_s)
        interrupts.check()
