"""Everything the scheduler knows about a run, and the commands that wait to be sent."""

from __future__ import annotations

from typing import NamedTuple

from fast_core.events import (
    Command,
    Decision,
    EndRun,
    Failed,
    LauncherCommand,
    StopReason,
)
from fast_core.scheduler.checkpointing import Checkpoints
from fast_core.scheduler.deaths import Deaths
from fast_core.scheduler.evaluation import Evaluations
from fast_core.scheduler.ledger import Ledger
from fast_core.scheduler.progress import Progress
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.restart import Failure, Failures
from fast_core.scheduler.routing import Routing
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.stages import Stages
from fast_core.scheduler.state import SchedulerState
from fast_core.scheduler.statistics import Episodes
from fast_core.scheduler.stopping import Ending
from fast_core.scheduler.tickets import Tickets

LAUNCHER = "launcher"


class Send(NamedTuple):
    """A command and the node that gets it; `LAUNCHER` for the launcher's own."""

    node: str
    command: Command | LauncherCommand


class Run:
    """The parts of the scheduler's knowledge, each in a class of its own, and the outbox.

    Attributes:
        collected: Environment steps of accepted rollouts.
        merged_env_steps: Environment steps of merged tickets.
        granted: Optimizer steps that they grant.
        stale: Events ignored because they named nothing that was expected.
        rollouts_dropped: Rollouts whose env node died while it collected them.
        awaited: Nodes that are not ready yet.
        now_s: Time of the last event.
        start_deadline_s: When every node must be ready; None before the first event.
        begun_anew: Episodes that no resume went on with, in the whole run.
        why_anew: Why the first of them in this part of it, empty for none.
        restoring: Whether a node steps open episodes again, as it said last.
        began_s: When training began; None while nodes start.
        ending: The end that has been decided, None while the run goes on.
        ended: Whether `EndRun` has been sent.
    """

    def __init__(self, settings: SchedulerSettings, state: SchedulerState | None):
        fresh = [0] * settings.shards
        self.settings = settings
        self.resumed = state is not None
        self.ledger = Ledger(
            settings.slots_per_shard,
            list(state.incarnations if state else fresh),
            list(state.rollout_ids if state else fresh),
        )
        self.tickets = Tickets(settings.shards, settings.degree, state.settled if state else 0)
        self.stages = Stages(settings.stages, settings.shards, in_shard_order=settings.degree == 0)
        self.routing = Routing(settings.routes)
        self.deaths = Deaths(settings.env_nodes, settings.env_restarts)
        self.progress = Progress(state)
        self.ratio = Ratio(settings, state)
        self.evaluations = Evaluations(settings, state)
        self.checkpoints = Checkpoints(settings, state)
        self.episodes = Episodes(state)
        self.failures = Failures()
        self.collected = self.progress.env_steps
        self.merged_env_steps = self.progress.env_steps
        self.granted = _granted_before(settings, state)
        self.stale = state.stale if state else 0
        self.rollouts_dropped = state.rollouts_dropped if state else 0
        self.awaited = set(settings.nodes)
        self.earlier_s = state.elapsed_s if state else 0.0
        self.now_s = 0.0
        self.start_deadline_s: float | None = None
        self.begun_anew = state.begun_anew if state else 0
        self.why_anew = ""
        self.restoring = False
        self.began_s: float | None = None
        self.ending: Ending | None = None
        self.ended = False
        self._outbox: list[Send] = []

    @property
    def elapsed_s(self) -> float:
        """Seconds of training at the last event, earlier parts of the run included."""
        return self.elapsed_at(self.now_s)

    def elapsed_at(self, now_s: float) -> float:
        """Seconds of training at ``now_s``, earlier parts of the run included."""
        return self.earlier_s + (0.0 if self.began_s is None else now_s - self.began_s)

    @property
    def time_limit_s(self) -> float | None:
        """When the time limit is reached, None for never."""
        limit = self.settings.stop_time_s
        if limit is None or self.began_s is None:
            return None
        return self.began_s + limit - self.earlier_s

    @property
    def saving_nodes(self) -> tuple[str, ...]:
        """Living nodes that hold a part of a checkpoint."""
        return tuple(n for n in self.settings.working_nodes if n not in self.deaths.lost)

    def send(self, node: str, command: Command | LauncherCommand) -> None:
        """Put a command into the outbox."""
        self._outbox.append(Send(node, command))

    def take_outbox(self) -> list[Send]:
        """Empty the outbox; returns what was in it, in order."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def decide(self, what: str, why: str) -> None:
        """Note a decision for people."""
        self.send(LAUNCHER, Decision(what, why))

    def end(self, reason: StopReason, text: str, cause: Failed | None = None) -> None:
        """End the run now."""
        self.ended = True
        self.decide("end", f"{reason}: {text}")
        self.send(LAUNCHER, EndRun(reason, text, cause))

    def fail(self, text: str) -> None:
        """End the run because a node broke its contract."""
        cause = Failed("scheduler", "deciding", text, "", {})
        self.failures.verdict(Failure(LAUNCHER, text, cause))
        self.end("failed", text, cause)


def _granted_before(settings: SchedulerSettings, state: SchedulerState | None) -> int:
    if state is None:
        return 0
    if state.granted is None:
        return state.settled * settings.updates_granted
    return state.granted
