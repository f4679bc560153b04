"""What happens next: after every event the scheduler does all that the present state allows."""

from __future__ import annotations

from collections.abc import Iterator

from fast_core import messages
from fast_core.messages import launching
from fast_core.scheduler.checkpointing import Cut
from fast_core.scheduler.flow import Flow
from fast_core.scheduler.ledger import Rollout, balanced_blocks
from fast_core.scheduler.life import LAUNCHER, Life
from fast_core.scheduler.scaling import move
from fast_core.scheduler.standstill import Debt
from fast_core.scheduler.stopping import Ending, limit_reached, tickets_needed


def begin(run: Life) -> None:
    """Every node is ready: hand out the shards; training begins with the next `advance`."""
    settings, shards = run.settings, len(run.ledger.owners)
    run.began_s = run.now_s
    run.pass_until(run.now_s)
    stands = "; ".join([flow.named(_stands(flow)) for flow in run.flows])
    why = f"{len(settings.nodes)} nodes are ready; {stands}"
    run.decide("resume" if run.resumed else "start", why)
    if run.why_anew:
        anew = run.counters.begun_anew
        run.decide(
            "not exact",
            f"this resume is not exact: with it, {anew} open episodes of the run were given up for "
            f"new ones. The first: {run.why_anew}",
        )
    for key, value in run.changes.values.items():
        run.decide("change", f"{key} goes on with {value!r}, as the checkpoint has it")
    for key in run.changes.dropped:
        run.decide("change dropped", f"{key}: the configuration of this resume says otherwise")
    blocks = balanced_blocks(shards, len(settings.env_nodes))
    for node, block in zip(settings.env_nodes, blocks, strict=True):
        for shard in block:
            run.send(node, run.ledger.assign(shard, node))
    run.decide(
        "assign",
        f"{shards} shards to {len(settings.env_nodes)} env nodes in contiguous blocks",
    )
    for node, envelope in run.routing.release():
        if not run.optional.awaits(node):
            run.send(node, envelope)
    if "start" in settings.moments:
        run.telling_start = True
        run.send(LAUNCHER, launching.Tell("start"))


def advance(run: Life) -> None:
    """Do everything that the present state allows; costs O(1) when that is nothing."""
    for node, life in run.restarts.take_due(run.now_s):
        begins = run.ledger.parked(node)
        run.send(LAUNCHER, launching.Respawn(node, life, begins, run.changes.values))
    for node, life in run.optional.take_due(run.now_s):
        run.send(LAUNCHER, launching.Respawn(node, life, (), run.changes.values))
    if run.began_s is None or (run.telling_start and run.ending is None):
        return
    if run.ending is None:
        _check_limits(run)
    # A snapshot goes out before the next Train, so it stands before it in the optimizer's channel.
    _start_evaluation(run)
    _merge(run)
    if run.changes.due and _rests(run) and not run.crew.joining:
        _change(run)
    if run.ending is None:
        move(run)
    _admit(run)
    if run.changes.holds:
        return
    if run.ending is not None:
        _finish(run, run.ending)
    elif run.checkpoints.cut is Cut.DUE and _rests(run) and not _waits(run):
        _save(run)


def steer(run: Life, flow: Flow, event: messages.Trained) -> None:
    """Let the degree of a flow follow where time goes, once its learner learns."""
    began = flow.settled.env_steps - flow.settings.rows_per_ticket
    why = flow.steer(event, learns=began >= flow.ratio.learning_from)
    if why is not None:
        run.decide("degree", flow.named(why))


def check_start_timeout(run: Life) -> None:
    """Fail a run that has not begun in time.

    Only when time itself is the news: nodes that all became ready while nobody looked, as in
    inline mode, are ready, although the first of their reports is taken after the deadline.
    """
    if run.began_s is not None or run.start_deadline_s is None:
        return
    if run.now_s < run.start_deadline_s:
        return
    missing = [node for node in run.settings.nodes if node in run.awaited]
    run.fail(late_text(missing, run.settings.start_timeout_s, restoring=run.restoring))


def check_standstill(run: Life, idle_since_s: float | None) -> None:
    """Tell of a run that stands still, and end it after its time."""
    standstill = run.standstill
    if run.began_s is None or standstill.check_s is None or run.now_s < standstill.check_s:
        return
    verdict = standstill.look(debts(run), idle_since_s, run.now_s)
    if verdict is None:
        return
    text = verdict.text(run.flow.tickets.settled)
    run.decide("standstill", text)
    if verdict.over:
        node = verdict.owed[0].node
        cause = messages.Failed(node, "waiting for work", text, "", {})
        lost = messages.NodeExited(node, text, report=cause)  # it is no better than dead
        run.end("failed", text, cause, again=run.comes_back(lost))


def debts(run: Life) -> Iterator[Debt]:
    """What nodes were told to do and have not said to have done; nothing of the launcher's own.

    Nothing while one is to come back, which has limits of its own: others may wait for it.
    """
    settings = run.settings
    if run.restarts.away:
        return
    for flow in run.flows:
        for node, rollout in flow.stages.open():
            what = f"has not sent Transformed of rollout {_name(rollout)}"
            yield Debt(node, messages.Transformed, what)
    for node, rollout in run.ledger.open():
        yield Debt(node, messages.RolloutReady, f"has not collected rollout {_name(rollout)}")
    for node, shard in run.acting.told:
        yield Debt(node, messages.Left, f"has not left shard {shard} to another policy node")
    for flow in run.flows:
        if flow.tickets.training > flow.followers.waiting:
            what = f"has not trained on ticket {flow.tickets.settled + flow.followers.waiting}"
            yield Debt(flow.settings.optimizer, messages.Trained, what)
        for node, ticket in flow.followers.owing():
            yield Debt(node, messages.Followed, f"has not sent Followed of ticket {ticket}")
    request = run.evaluations.kept.request
    if run.evaluations.stage == "snapshot":
        yield Debt(settings.optimizer, messages.SnapshotTaken, f"has taken no snapshot {request}")
    if run.evaluations.stage == "evaluate" and settings.evaluator is not None:
        yield Debt(settings.evaluator, messages.Evaluated, f"has no result of evaluation {request}")
    for node in run.changes.missing:
        yield Debt(node, messages.Changed, "has not said that it goes on with changed values")
    for node in run.checkpoints.missing:
        what = f"has not sent Saved of checkpoint {run.checkpoints.number}"
        yield Debt(node, messages.Saved, what)


def _name(rollout: Rollout) -> str:
    return f"{rollout.order.rollout_id} of shard {rollout.order.shard}"


def late_text(missing: list[str], limit_s: float, *, restoring: bool) -> str:
    """What to say of nodes that are not ready in time, perhaps with episodes to step again."""
    text = (
        f"not every node was ready within {limit_s:g} s (supervision.start_timeout_s); "
        f"missing: {', '.join(missing)}"
    )
    if restoring:
        text += (
            ". They were stepping open episodes again, and came forward no more; "
            "checkpoint.exact=never begins new ones instead"
        )
    return text


def _limit_reached(run: Life) -> str | None:
    """The limits on steps or updates if every learner has reached its own, or that on time."""
    reached = []
    for flow in run.flows:
        text = limit_reached(flow.settings, flow.settled)
        if text is None:
            break
        reached.append(flow.named(text))
    else:
        return "; ".join(reached)
    # Compared with the very time that was asked for as a wake-up, never with a difference that
    # rounding could leave short of the limit: that would ask for the same time again.
    if run.time_limit_s is not None and run.now_s >= run.time_limit_s:
        limit_s = run.settings.stop_time_s
        return f"{run.elapsed_s:.1f} s of training (stop.time_s: {limit_s:g})"
    return None


def _check_limits(run: Life) -> None:
    """Decide the end if a limit or the score is reached."""
    settings, evaluations = run.settings, run.evaluations
    reached = _limit_reached(run)
    solved = reached is None and evaluations.solved
    if solved:
        reached = (
            f"solved: {evaluations.result_text()} (stop.score: {settings.stop_score:g}, "
            f"stop.score_held: {settings.stop_score_held})"
        )
    if reached is None:
        return
    if run.resumed and run.now_s == run.began_s:
        change = "stop.score to more, or to null" if solved else "what stands there to more"
        reached += f"; it was so before the resume, and nothing was trained: set {change}"
    save = settings.checkpoint_at_end
    run.ending = Ending("finished", reached, evaluate=not solved, wait=True, save=save)
    run.decide("stop", reached)


def _start_evaluation(run: Life) -> None:
    evaluations = run.evaluations
    if not evaluations.kept.due or evaluations.in_flight:
        return
    if run.ending is not None and not run.ending.evaluate:
        return
    replaced = evaluations.replaced
    run.send(run.settings.optimizer, evaluations.start(run.changes.values))
    why = f"request {evaluations.kept.request} at {run.flow.settled.env_steps} env steps"
    if replaced:
        why += f", coalesced with {replaced} requests that came while another one ran"
    run.decide("evaluate", why)


def _merge(run: Life) -> None:
    for flow in run.flows:
        while flow.tickets.ready >= flow.settings.shards and not _holds_training(run):
            dropped = flow.counters.rollouts_dropped
            merged = flow.merge()
            if flow.counters.rollouts_dropped != dropped:
                _tell_of_dropped(run, flow, dropped)
            if merged is None:
                break
            _order(run, flow, flow.order(merged))


def _order(run: Life, flow: Flow, train: messages.Train) -> None:
    replay = flow.settings.replay
    if replay is not None and replay not in run.restarts.away:
        run.send(replay, train)  # before the optimizer, which waits for what it draws
    for node in flow.followers.order(train):
        if node not in run.restarts.away:
            run.send(node, train)
    run.send(flow.settings.optimizer, train)


def _tell_of_dropped(run: Life, flow: Flow, before: int) -> None:
    """Tell of the first rollout that was given up, the tenth, the hundredth..."""
    now = flow.counters.rollouts_dropped
    if before == 0 or len(str(now)) > len(str(before)):
        why = (
            f"{now} so far, with {now * flow.settings.rows_per_rollout} rows: without the last of "
            f"them, ticket {flow.tickets.merged} would have waited for env nodes or broken the "
            "bound on old rows (scheduler.stragglers: drop)"
        )
        run.decide("rollouts dropped", flow.named(why))


def _admit(run: Life) -> None:
    for flow in run.flows:
        if not flow.has_idle:
            continue
        needed = tickets_needed(flow.settings, flow.settled, flow.ratio, flow.tickets.settled)
        for node, collect in flow.admit(needed, run.now_s, hold=_hold(run)):
            run.send(node, collect)


def _rests(run: Life) -> bool:
    """Whether nothing is open and every node is there that has to take part."""
    return run.quiescent and run.complete


def _stands(flow: Flow) -> str:
    """How far a learner is as its run begins."""
    progress, degree = flow.settled, str(flow.degree)
    if flow.auto is not None:
        degree += f", chosen by itself from 0 to {flow.settings.degree}"
    text = f"degree {degree}, {progress.env_steps} env steps and {progress.updates} updates done"
    if progress.env_steps < flow.ratio.learning_from:
        text += f", learning begins at {flow.ratio.learning_from} env steps"
    return text


def _hold(run: Life) -> bool:
    """Whether no further ticket may begin for now."""
    if run.ending is not None or run.checkpoints.holds or run.changes.holds:
        return True
    return _waits(run)


def _waits(run: Life) -> bool:
    """Whether training stands still for a synchronous evaluation.

    It does from the merge of the ticket after which one is wanted, because above degree 0 the
    next ticket may be ready: then the version of that moment would be gone before the snapshot.
    A checkpoint waits with it, which costs nothing as nothing may begin anyway, and so none has a
    synchronous evaluation in flight.
    """
    if run.settings.eval_mode != "sync":
        return False
    return run.evaluations.active or run.evaluations.wanted_at(run.flow.merged_rows)


def _holds_training(run: Life) -> bool:
    """Whether ready rollouts wait too: not where an end has been decided that evaluates no more."""
    return _waits(run) and (run.ending is None or run.ending.evaluate)


def _change(run: Life) -> None:
    changes, flow = run.changes, run.flow
    progress, ticket = flow.settled, flow.tickets.settled
    at = f"from ticket {ticket} on ({progress.env_steps} env steps, version {progress.version})"
    for key, wanted in changes.wanted.items():
        before = changes.current(key)
        run.decide("change", f"{key} {before!r} -> {wanted.value!r} {at}: {wanted.why}")
    nodes = run.changing_nodes
    command = changes.start(nodes)
    for node in nodes:
        run.send(node, command)


def _save(run: Life) -> None:
    progress, nodes = run.flow.settled, run.saving_nodes
    version, env_steps = progress.version, progress.env_steps
    save = run.checkpoints.start(run.progress, nodes)
    state = run.state()  # its number is part of it
    run.checkpoints.shows(
        launching.CommitCheckpoint(save.checkpoint, version, env_steps, (), state)
    )
    for node in nodes:
        run.send(node, save)
    run.decide(
        "checkpoint",
        f"number {save.checkpoint} at {env_steps} env steps, {progress.updates} updates",
    )


def _finish(run: Life, ending: Ending) -> None:
    """Take the next step of an end that has been decided: rest, evaluate, save, leave."""
    evaluations, checkpoints = run.evaluations, run.checkpoints
    if not run.quiescent or checkpoints.busy:
        return
    if ending.wait and evaluations.in_flight:
        return
    if ending.evaluate and _last_version_wants_evaluation(run):
        evaluations.ask()
        _start_evaluation(run)
        return
    wanted = ending.save or checkpoints.cut is Cut.DUE
    if wanted and not checkpoints.is_settled(run.progress):
        checkpoints.ask()
        if run.complete:
            _save(run)
        return
    run.end(ending.reason, _final_text(run, ending))


def _last_version_wants_evaluation(run: Life) -> bool:
    settings = run.settings
    wanted = settings.eval_at_end and settings.evaluator is not None
    return wanted and run.evaluations.kept.last_version != run.flow.settled.version


def _final_text(run: Life, ending: Ending) -> str:
    """How the run ended, and which version reached the score if training went on meanwhile."""
    evaluations, text, version = run.evaluations, ending.text, run.flow.settled.version
    result, by = evaluations.result_text(), evaluations.solved_by
    if ending.evaluate and result:
        if by is not None and not evaluations.solved:
            text += f"; solved: {by.text}"
        text += f"; last evaluation: {result}{' (solved)' if evaluations.solved else ''}"
    if by is not None and by.version != version:
        text += f"; training went on to version {version}"
        text += ", where a resume begins" if ending.save else ""
    if run.checkpoints.error:
        text += f"; the last checkpoint could not be written: {run.checkpoints.error}"
    return text
