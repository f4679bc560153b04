"""The scheduler: events and the time go in, commands come out.

Nothing here does I/O, reads a clock or draws a random number, so whole runs can be replayed and
simulated. An event costs time in proportion to the shards it touches, never to all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fast_core import messages
from fast_core.messages import launching
from fast_core.scheduler import scaling
from fast_core.scheduler.checkpointing import Cut
from fast_core.scheduler.decisions import (
    advance,
    begin,
    check_standstill,
    check_start_timeout,
    debts,
    steer,
)
from fast_core.scheduler.failures import describe
from fast_core.scheduler.flow import Flow
from fast_core.scheduler.ledger import RolloutState
from fast_core.scheduler.life import LAUNCHER, Life, Send
from fast_core.scheduler.reading import read_statistics
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.standstill import owed_text
from fast_core.scheduler.state import SavedState
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
        self._life = Life(settings, None if state is None else SavedState(state))

    def handle(self, event: messages.Event | launching.LauncherEvent, now_s: float) -> list[Send]:
        """Take one event at the time ``now_s``; returns what is to be sent, in order."""
        run = self._life
        run.now_s = now_s
        if run.start_deadline_s is None:
            run.start_deadline_s = now_s + run.settings.start_timeout_s
        if run.began_s is not None:
            run.pass_until(now_s)
        if run.ended:
            _after_the_end(run, event)
        else:
            if getattr(event, "node", None) not in run.optional.names:  # nothing waits for them
                run.standstill.take(event, now_s)
            _dispatch(run, event)
            if not run.ended:
                advance(run)
        return run.take_outbox()

    def survives(self, event: messages.Event | launching.LauncherEvent) -> bool:
        """Whether the run goes on although this event says that a node is gone."""
        run = self._life
        if not isinstance(event, messages.NodeExited) or run.ended:
            return False
        if event.node in run.optional.names:
            return True
        if run.began_s is None:
            return False
        return run.restarts.knows(event) or run.restarts.survives(event)

    def spares(self, event: messages.Event | launching.LauncherEvent) -> bool:
        """Whether this is about a node that is no part of the run, not yet or not any more."""
        if self._life.ended or not isinstance(event, messages.Failed | messages.NodeExited):
            return False
        crew = self._life.crew_of(event.node)
        return event.node in crew.retired or event.node in crew.joining

    def next_wakeup_s(self) -> float | None:
        """Earliest time at which a `Tick` is wanted, None for never; 0 before the first event."""
        run = self._life
        if run.ended:
            return None
        due_s = run.optional.next_s
        if run.began_s is None:
            return _earlier(due_s, run.start_deadline_s or 0.0)
        if run.ending is None and not run.telling_start:  # until then nothing is decided
            due_s = _earlier(due_s, run.time_limit_s)
        return _earlier(_earlier(due_s, run.restarts.next_s), run.standstill.check_s)

    def owed(self) -> str:
        """What nodes have not done yet, and who; empty where they owe nothing."""
        return owed_text(list(debts(self._life)))

    def state(self) -> bytes:
        """The scheduler's part of a checkpoint.

        Raises:
            CheckpointError: Some rollout was started and is not settled.
        """
        return self._life.state()

    def executors(self) -> tuple[str, ...]:
        """The node that executes each shard now, by shard; empty names before the run begins."""
        return tuple(self._life.ledger.owners)

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is due, or being written."""
        return self._life.checkpoints.cut is not Cut.IDLE

    def statistics(self, now_s: float | None = None, learner: int = 0) -> Statistics:
        """The counters of a learner; time has gone on to ``now_s``, or stands at the last event."""
        return read_statistics(self._life, self._life.flows[learner], now_s)


def _earlier(at_s: float | None, other_s: float | None) -> float | None:
    if at_s is None or (other_s is not None and other_s < at_s):
        return other_s
    return at_s


def _dispatch(run: Life, event: messages.Event | launching.LauncherEvent) -> None:
    fault = _users_fault(run, event)
    if fault is not None:
        _fail_for(run, event, fault)
        return
    # What has no handler, LogLine and Figures, is the shell's business.
    handler = _HANDLERS.get(type(event))
    if handler is not None and handler(run, event) is False:
        run.counters.stale += 1


def _users_fault(run: Life, event: messages.Event | launching.LauncherEvent) -> str | None:
    """What is wrong with what a user's node says; nobody would ever answer it.

    The same of a node of FastLoop's own may be late news of one that died.
    """
    node = getattr(event, "node", None)
    if node not in run.users:
        return None
    match event:
        case messages.Saved(checkpoint=number) if not run.checkpoints.owes(event):
            return (
                f"{node} reported its part of checkpoint {number} as saved, which it was not asked "
                "for or had reported before; it must send one Saved with the `checkpoint` of each "
                f"Save. The last one was {run.checkpoints.number}"
            )
        case messages.Followed(ticket=ticket) if not any(
            f.followers.expects(event) for f in run.flows
        ):
            return (
                f"{node} sent Followed of ticket {ticket}, which it was not told of or had "
                "answered; it must send one with the `ticket` of each Train, in their order"
            )
        case messages.Ready() if not _is_awaited(run, event.node):
            return f"{node} reported ready twice; FastLoop does it for a node whose setup() is done"
        case (
            messages.RolloutReady()
            | messages.Trained()
            | messages.SnapshotTaken()
            | messages.Evaluated()
            | messages.Changed()
            | messages.Noted()
            | messages.Left()
        ):
            return (
                f"{node} sent {type(event).__name__}, which only FastLoop's own nodes send. Send a "
                "message of your own instead: a subclass of fast_core.messages.UserMessage"
            )
    return None


def _is_awaited(run: Life, node: str) -> bool:
    return node in run.awaited or run.restarts.awaits(node) or run.optional.awaits(node)


def _fail_for(run: Life, event: messages.Event | launching.LauncherEvent, fault: str) -> None:
    """A node broke its contract: that ends the run, unless it goes on without the node anyway."""
    node = getattr(event, "node", "")
    if node not in run.optional.names:
        run.fail(fault)
        return
    run.counters.stale += 1
    if run.optional.is_first_fault(node):
        run.decide("refused", fault)


def _ready(run: Life, event: messages.Ready) -> bool:
    if event.node in run.optional.names:
        if run.optional.ready(event.node, run.now_s):
            run.decide("node back", f"{event.node} is ready again")
        return True
    if run.restarts.awaits(event.node):
        _come_back(run, event.node)
        return True
    if event.node in run.crew_of(event.node).joining:
        scaling.join(run, event.node)
        return True
    if event.node not in run.awaited:
        return False
    run.awaited.discard(event.node)
    if not run.awaited:
        begin(run)
    return True


def _come_back(run: Life, node: str) -> None:
    """A node that died is ready again."""
    run.restarts.back(node, run.now_s)
    run.ledger.resume(node)
    if run.acting.crew.knows(node):
        run.send(node, run.acting.again(node))
    for flow in run.flows:
        if node == flow.settings.replay:  # which knows what it has drawn of them
            for train in flow.drawing:
                run.send(node, train)
        for train in flow.followers.open(node):
            run.send(node, train)
    if node == run.settings.evaluator and run.evaluations.open is not None:
        run.send(node, run.evaluations.open)
    run.decide("node back", f"{node} is ready again")


def _restoring(run: Life, event: messages.Restoring) -> None:
    """A node that comes forward is waited for; how long it takes depends on its environments."""
    run.start_deadline_s = run.now_s + run.settings.start_timeout_s
    run.restoring = event.taken < event.steps
    run.counters.begun_anew += event.anew
    run.why_anew = run.why_anew or event.why


def _rollout_ready(run: Life, event: messages.RolloutReady) -> bool:
    rollout = run.ledger.complete(event)
    if rollout is None:
        return False
    if event.version < rollout.order.min_version:
        run.fail(
            f"{event.node} collected rollout {event.rollout_id} of shard {event.shard} with "
            f"version {event.version}; it was told to wait for {rollout.order.min_version}"
        )
        return True
    flow = run.flow_of(event.shard)
    served_s = flow.complete(rollout, run.now_s, flow.settings.rows_per_rollout)
    if run.loads is not None:
        run.loads.completed(event.node, served_s)
    if rollout.place is RolloutState.STAGED:
        for node, command in flow.stages.enter(rollout):
            run.send(node, command)
    return True


def _transformed(run: Life, event: messages.Transformed) -> None:
    ref = event.rollout
    flow = run.flow_of(ref.shard)
    left = flow.stages.leave(event)
    if left is None:
        run.fail(
            f"{event.node} reported rollout {ref.rollout_id} of shard {ref.shard} (incarnation "
            f"{ref.incarnation}, slot {ref.slot}) as transformed, which it does not have; it must "
            "send one Transformed with the `rollout` of each Transform, when it is done with it"
        )
    elif left.command is None:
        flow.tickets.complete(left.rollout)
    else:
        run.send(left.node, left.command)


def _envelope(run: Life, event: messages.Envelope) -> None:
    fault = run.routing.fault(event)
    if fault is not None:
        _fail_for(run, event, fault)
    elif run.began_s is None:
        run.routing.hold(event)
    else:
        for node in run.routing.receivers(event):
            # one that is not there has nothing to hear
            if not run.optional.awaits(node) and node not in run.restarts.away:
                run.send(node, event)


def _trained(run: Life, event: messages.Trained) -> bool:
    flow = run.learners.get(event.node)
    if flow is None or event.ticket < flow.tickets.settled:
        return False
    flow.followers.report(event)
    _settle(run, flow)
    return True


def _followed(run: Life, event: messages.Followed) -> bool:
    for flow in run.flows:
        if flow.followers.expects(event):
            flow.followers.answer(event)
            _settle(run, flow)
            return True
    return False


def _settle(run: Life, flow: Flow) -> None:
    """Settle the tickets that everybody is done with."""
    while not run.ended and (event := flow.followers.take()) is not None:
        _settle_one(run, flow, event)


def _settle_one(run: Life, flow: Flow, event: messages.Trained) -> None:
    fault = flow.fault(event)
    if fault is not None:
        run.fail(fault)
        return
    flow.settle(event, whole=not run.restarts.away)
    steer(run, flow, event)
    fault = flow.episodes.fault(run.settings.nonfinite_share)
    if fault is not None:
        run.fail(fault)
        return
    if flow is run.flow:
        run.evaluations.trained(flow.settled.env_steps)
    run.checkpoints.trained(run.progress.updates, run.elapsed_s)
    scaling.balance(run)


def _snapshot_taken(run: Life, event: messages.SnapshotTaken) -> bool:
    evaluator, evaluations = run.settings.evaluator, run.evaluations
    if evaluator is None or event.node != run.settings.optimizer or not evaluations.awaits(event):
        return False
    evaluate = evaluations.snapshot_taken(event)
    if evaluator not in run.restarts.away:  # else it is told when it is back
        run.send(evaluator, evaluate)
    return True


def _evaluated(run: Life, event: messages.Evaluated) -> bool:
    evaluations, asked = run.evaluations, run.settings.eval_episodes
    if event.node != run.settings.evaluator or not evaluations.expects(event):
        return False
    for played in event.played.values():
        if len(played.returns) != asked:
            run.fail(
                f"{event.node} returned {len(played.returns)} episodes for evaluation "
                f"{event.request}; exactly {asked} were asked for"
            )
            return True
    evaluations.evaluated(event)
    run.decide("evaluated", f"request {event.request}: {evaluations.result_text()}")
    if evaluations.telling:
        run.send(LAUNCHER, launching.Tell("evaluation"))
    return True


def _saved(run: Life, event: messages.Saved) -> bool:
    checkpoints = run.checkpoints
    if not checkpoints.expects(event):
        return False
    _tell_launcher(run, checkpoints.saved(event))
    return True


def _checkpoint_written(run: Life, event: launching.CheckpointWritten) -> bool:
    if not run.checkpoints.expects_written(event):
        return False
    abandoned = run.checkpoints.written(event)
    _tell_launcher(run, abandoned)
    if abandoned is None:
        run.decide("checkpoint written", f"number {event.checkpoint}")
    if run.checkpoints.cut is Cut.TELLING:
        run.send(LAUNCHER, launching.Tell("checkpoint"))
    return True


def _tell_launcher(
    run: Life, command: launching.CommitCheckpoint | launching.AbandonCheckpoint | None
) -> None:
    if command is not None:
        run.send(LAUNCHER, command)
    if isinstance(command, launching.AbandonCheckpoint):
        run.decide("checkpoint failed", f"number {command.checkpoint}: {command.error}")


def _stop_requested(run: Life, event: launching.StopRequested) -> None:
    again = run.ending is not None and run.ending.reason == "interrupted"
    can_save = run.checkpoints.configured and run.progress.tickets > 0
    if again or not event.save or not can_save or run.began_s is None:
        text = event.reason
        if event.save and run.progress.tickets == 0:
            text += ": nothing was trained yet, so there is nothing to save"
        run.end("interrupted", text)
        return
    run.ending = Ending("interrupted", event.reason, evaluate=False, wait=False, save=True)
    run.restarts.hurry(run.now_s)
    run.decide("stop", f"{event.reason}; saving first")


def _told(run: Life, event: launching.Told) -> None:
    match event.moment:
        case "start":
            run.telling_start = False
        case "evaluation":
            run.evaluations.told()
        case "checkpoint":
            run.checkpoints.told()
    for asked in event.asked:
        _do_what_was_asked(run, asked)


def _do_what_was_asked(run: Life, asked: launching.Asked) -> None:
    checkpoints = run.checkpoints
    for key, value in asked.changes.items():
        run.changes.ask(key, value, f"asked for by {asked.by}")
    if asked.save and not (run.quiescent and checkpoints.is_settled(run.progress)):
        run.decide("checkpoint asked for", f"by {asked.by}")
        checkpoints.ask()
    if asked.stop is not None and run.ending is None:
        text, save = f"{asked.stop} ({asked.by})", run.settings.checkpoint_at_end
        run.ending = Ending("finished", text, evaluate=True, wait=True, save=save)
        run.decide("stop", text)


def _exited(run: Life, event: messages.NodeExited) -> bool:
    if event.node in run.optional.names:
        _lose_optional(run, event)
    elif run.restarts.knows(event):
        return False
    elif event.node in run.crew_of(event.node).retired:
        if event.reaped:
            scaling.gone(run, event.node)
    elif event.node in run.crew_of(event.node).joining:
        scaling.give_up(run, event)
    elif run.began_s is not None and run.restarts.survives(event):
        _lose(run, event)
    else:
        _failed(run, event)
    return True


def _lose_optional(run: Life, event: messages.NodeExited) -> None:
    if run.optional.is_news(event):
        run.decide("node gone", run.optional.bury(event, run.now_s))
    else:
        run.counters.stale += 1


def _lose(run: Life, event: messages.NodeExited) -> None:
    """A node is gone and comes back; what it was collecting will be ordered anew."""
    node = event.node
    parked = run.ledger.park(node)
    dropped = sum(run.flow_of(rollout.order.shard).drop(rollout) for rollout in parked)
    run.checkpoints.again(node)
    run.changes.bury(node)
    for flow in run.flows:
        flow.times.bury(node)
    if run.loads is not None:
        run.loads.bury(node)
    text = run.restarts.describe(event, run.restarts.bury(node, run.now_s))
    if dropped:
        text += f"; {dropped} open rollouts are dropped and ordered anew"
    run.decide("node lost", text)
    for shard in run.acting.bury(node):
        scaling.hand_over(run, shard)


def _failed(run: Life, event: messages.Failed | messages.NodeExited) -> None:
    if event.node in run.optional.names:  # inline, where no process ends
        run.decide("node gone", run.optional.give_up(event))
        return
    if event.node in run.crew_of(event.node).joining:
        scaling.give_up(run, event)
        return
    text, cause = describe(event)
    if event.node in run.crew_of(event.node).retired:
        run.decide("retired node failed", text)
        return
    run.end("failed", text, cause, again=run.comes_back(event))


def _left(run: Life, event: messages.Left) -> bool:
    expected = run.acting.awaits(event)
    if expected:
        scaling.hand_over(run, event.shard)
    return expected


def _tick(run: Life, event: launching.Tick) -> None:
    check_start_timeout(run)
    check_standstill(run, event.idle_since_s)


# By event; False of what one returns says that nobody expected it (any more).
_HANDLERS: dict[type[Any], Callable[[Life, Any], bool | None]] = {
    messages.RolloutReady: _rollout_ready,
    messages.Transformed: _transformed,
    messages.Envelope: _envelope,
    messages.Followed: _followed,
    messages.Trained: _trained,
    messages.SnapshotTaken: _snapshot_taken,
    messages.Evaluated: _evaluated,
    messages.Changed: lambda run, event: run.changes.changed(event),
    messages.Noted: lambda run, event: run.checkpoints.noted(event),
    messages.Saved: _saved,
    launching.CheckpointWritten: _checkpoint_written,
    launching.Acted: lambda run, event: run.acting.acted(event),
    messages.Left: _left,
    messages.Restoring: _restoring,
    messages.Ready: _ready,
    messages.NodeExited: _exited,
    messages.Failed: _failed,
    launching.StopRequested: _stop_requested,
    launching.Told: _told,
    launching.ScaleRequested: scaling.scale,
    launching.Requested: lambda run, event: _do_what_was_asked(run, event.asked),
    launching.Tick: _tick,
    messages.Late: lambda run, event: False,
}


def _after_the_end(run: Life, event: messages.Event | launching.LauncherEvent) -> None:
    if isinstance(event, messages.NodeExited) and not event.cause:
        return  # it had been told to stop
    if isinstance(event, messages.Failed | messages.NodeExited):
        run.decide("failure after the end", describe(event).text)
