"""The scheduler: events and the time go in, commands come out.

Nothing here does I/O, reads a clock or draws a random number, so whole runs can be replayed and
simulated. An event costs time in proportion to the shards it touches, never to all of them.
"""

from __future__ import annotations

from fast_core.events import (
    CheckpointWritten,
    Envelope,
    Evaluated,
    Event,
    Failed,
    LauncherEvent,
    NodeExited,
    Noted,
    Ready,
    RolloutReady,
    Saved,
    SnapshotTaken,
    StopRequested,
    Tick,
    Trained,
    Transformed,
)
from fast_core.scheduler.deaths import describe_move
from fast_core.scheduler.decisions import advance, begin, check_start_timeout
from fast_core.scheduler.reading import read_state, read_statistics
from fast_core.scheduler.restart import describe
from fast_core.scheduler.run import LAUNCHER, Run, Send
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.state import decode_state
from fast_core.scheduler.statistics import Statistics
from fast_core.scheduler.stopping import Ending


class Scheduler:
    """Decides who works next.

    Call `handle` with every event in the order of arrival and send what it returns, in order.
    Call it with a `Tick` when `next_wakeup_s` has come. Times are seconds of one monotonic clock.
    After `EndRun` nothing is sent any more but `Decision`.
    """

    def __init__(self, settings: SchedulerSettings, state: bytes | None = None):
        """Start a run, or go on with one from the scheduler's part of its checkpoint.

        Raises:
            CheckpointError: The state is damaged or belongs to a run with other shards.
        """
        self._run = Run(settings, None if state is None else decode_state(state, settings.shards))

    def handle(self, event: Event | LauncherEvent, now_s: float) -> list[Send]:
        """Take one event at the time ``now_s``; returns what is to be sent, in order."""
        run = self._run
        run.now_s = now_s
        if run.start_deadline_s is None:
            run.start_deadline_s = now_s + run.settings.start_timeout_s
        if run.ended:
            _after_the_end(run, event)
        else:
            _dispatch(run, event)
            if not run.ended:
                advance(run)
        return run.take_outbox()

    def survives(self, event: Event | LauncherEvent) -> bool:
        """Whether the run goes on although this event says that a node is gone."""
        run = self._run
        if not isinstance(event, NodeExited) or run.ended or run.began_s is None:
            return False
        return event.node in run.deaths.lost or run.deaths.survives(event)

    def next_wakeup_s(self) -> float | None:
        """Earliest time at which a `Tick` is wanted, None for never; 0 before the first event."""
        run = self._run
        if run.ended:
            return None
        if run.began_s is None:
            return 0.0 if run.start_deadline_s is None else run.start_deadline_s
        return run.time_limit_s if run.ending is None else None

    def state(self) -> bytes:
        """The scheduler's part of a checkpoint.

        Raises:
            CheckpointError: Some rollout was started and is not settled.
        """
        return read_state(self._run)

    def executors(self) -> tuple[str, ...]:
        """The node that executes each shard now, by shard; empty names before the run begins."""
        return tuple(self._run.ledger.owners)

    def statistics(self, now_s: float | None = None) -> Statistics:
        """The counters; time has gone on to ``now_s``, or stands at the last event."""
        return read_statistics(self._run, now_s)


def _dispatch(run: Run, event: Event | LauncherEvent) -> None:
    match event:
        case RolloutReady():
            _rollout_ready(run, event)
        case Transformed():
            _transformed(run, event)
        case Envelope():
            _envelope(run, event)
        case Trained():
            _trained(run, event)
        case SnapshotTaken():
            _snapshot_taken(run, event)
        case Evaluated():
            _evaluated(run, event)
        case Noted():
            if not run.checkpoints.noted(event):
                run.stale += 1
        case Saved():
            _saved(run, event)
        case CheckpointWritten():
            _checkpoint_written(run, event)
        case Ready():
            _ready(run, event)
        case NodeExited():
            _exited(run, event)
        case Failed():
            _failed(run, event)
        case StopRequested():
            _stop_requested(run, event)
        case Tick():
            check_start_timeout(run)
        case _:  # Heartbeat and LogLine are the shell's business
            pass


def _ready(run: Run, event: Ready) -> None:
    if event.node not in run.awaited:
        run.stale += 1
        return
    run.awaited.discard(event.node)
    if not run.awaited:
        begin(run)


def _rollout_ready(run: Run, event: RolloutReady) -> None:
    rollout = run.ledger.complete(event)
    if rollout is None:
        run.stale += 1
        return
    if event.version < rollout.order.min_version:
        run.fail(
            f"{event.node} collected rollout {event.rollout_id} of shard {event.shard} with "
            f"version {event.version}; it was told to wait for {rollout.order.min_version}"
        )
        return
    run.collected += run.settings.rows_per_rollout
    if run.settings.stages:
        for node, command in run.stages.enter(rollout):
            run.send(node, command)
    else:
        run.tickets.complete(rollout)


def _transformed(run: Run, event: Transformed) -> None:
    left, ref = run.stages.leave(event), event.rollout
    if left is None:
        run.fail(
            f"{event.node} reported rollout {ref.rollout_id} of shard {ref.shard} (incarnation "
            f"{ref.incarnation}, slot {ref.slot}) as transformed, which it does not have; it must "
            "send one Transformed with the `rollout` of each Transform, when it is done with it"
        )
    elif left.command is None:
        run.tickets.complete(left.rollout)
    else:
        run.send(left.node, left.command)


def _envelope(run: Run, event: Envelope) -> None:
    fault = run.routing.fault(event)
    if fault is not None:
        run.fail(fault)
    elif run.began_s is None:
        run.routing.hold(event)
    else:
        for node in run.routing.receivers(event):
            run.send(node, event)


def _trained(run: Run, event: Trained) -> None:
    settings, tickets, progress = run.settings, run.tickets, run.progress
    if event.node != settings.optimizer or event.ticket < tickets.settled:
        run.stale += 1
        return
    due = tickets.next_to_settle
    expected, granted = (None, 0) if due is None else (tickets.settled, due.granted)
    fault = progress.fault(event, expected=expected, granted=granted)
    if fault is not None:
        run.fail(fault)
        return
    run.ledger.release(tickets.settle())
    progress.settle(event, settings.rows_per_ticket)
    run.evaluations.trained(progress.env_steps)
    run.checkpoints.trained(progress.updates)


def _snapshot_taken(run: Run, event: SnapshotTaken) -> None:
    evaluator, evaluations = run.settings.evaluator, run.evaluations
    if evaluator is None or event.node != run.settings.optimizer or not evaluations.awaits(event):
        run.stale += 1
        return
    run.send(evaluator, evaluations.snapshot_taken(event))


def _evaluated(run: Run, event: Evaluated) -> None:
    evaluations, asked = run.evaluations, run.settings.eval_episodes
    if event.node != run.settings.evaluator or not evaluations.expects(event):
        run.stale += 1
        return
    if len(event.returns) != asked:
        run.fail(
            f"{event.node} returned {len(event.returns)} episodes for evaluation "
            f"{event.request}; exactly {asked} were asked for"
        )
        return
    evaluations.evaluated(event)
    run.decide("evaluated", f"request {event.request}: {evaluations.result_text()}")


def _saved(run: Run, event: Saved) -> None:
    checkpoints = run.checkpoints
    if not checkpoints.expects(event):
        run.stale += 1
        return
    commit = checkpoints.saved(event)
    if commit is not None:
        run.send(LAUNCHER, commit)


def _checkpoint_written(run: Run, event: CheckpointWritten) -> None:
    if not run.checkpoints.expects_written(event):
        run.stale += 1
        return
    run.checkpoints.written()
    run.decide("checkpoint written", f"number {event.checkpoint}")


def _stop_requested(run: Run, event: StopRequested) -> None:
    again = run.ending is not None and run.ending.reason == "interrupted"
    can_save = run.checkpoints.configured and run.tickets.settled > 0
    if again or not event.save or not can_save or run.began_s is None:
        run.end("interrupted", event.reason)
        return
    run.ending = Ending("interrupted", event.reason, evaluate=False, wait=False, save=True)
    run.decide("stop", f"{event.reason}; saving first")


def _exited(run: Run, event: NodeExited) -> None:
    if event.node in run.deaths.lost:
        run.stale += 1
    elif run.began_s is not None and run.deaths.survives(event):
        _go_on_without(run, event)
    else:
        _failed(run, event)


def _go_on_without(run: Run, event: NodeExited) -> None:
    """Give the shards of a dead env node to others; what it was collecting is ordered anew."""
    dropped = 0
    shards = run.deaths.bury(event.node)
    for shard in shards:
        rollout = run.ledger.drop(shard)
        if rollout is not None:
            run.tickets.drop(rollout)
            dropped += 1
        node = run.deaths.least_loaded()
        run.deaths.give(shard, node)
        run.send(node, run.ledger.assign(shard, node, taken_over=True))
    run.rollouts_dropped += dropped
    run.checkpoints.again()
    run.decide("env node lost", describe_move(event, shards, dropped, run.deaths.left))


def _failed(run: Run, event: Failed | NodeExited) -> None:
    failure = describe(event)
    run.failures.verdict(failure)
    run.end("failed", failure.text, failure.cause)


def _after_the_end(run: Run, event: Event | LauncherEvent) -> None:
    if isinstance(event, NodeExited) and not event.cause:
        return  # it had been told to stop
    if isinstance(event, Failed | NodeExited):
        failure = describe(event)
        run.failures.verdict(failure)
        run.decide("failure after the end", failure.text)
