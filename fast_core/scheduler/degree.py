"""The off-policy degree that a run chooses by itself (``off_policy_degree: -1``).

Figures go in, a degree and the reason come out. A run begins at degree 0, where a round shows what
collecting and training take by themselves, and goes from there to what Little's law asks for, or
stays if there is too little to gain. From then on the degree follows two figures: it grows while
the slower side waits, and is halved when rows have become too old to learn from.
"""

from __future__ import annotations

import math

import msgspec

GAIN = 0.05  # less than that is not worth older rows
WAITING = 0.05  # of its time that the slower side may wait
ESS = 0.5  # effective sample size, as a share of the rows, below which rows are too old
# Where nothing says how old rows may be: what docs call careful.
UNMEASURED_MOST = 5
LEAST_TICKETS, LEAST_S, ENOUGH_TICKETS = 4, 1.0, 64  # of a look: enough of them, or a second's
CALM = 10  # looks until a degree that was too high is tried again


class Spread(msgspec.Struct):
    """How much some durations differ."""

    count: int = 0
    total_s: float = 0.0
    squares: float = 0.0

    def add(self, duration_s: float) -> None:
        """Count one."""
        self.count += 1
        self.total_s += duration_s
        self.squares += duration_s * duration_s

    @property
    def variation(self) -> float:
        """Their coefficient of variation."""
        if not self.total_s:
            return 0.0
        mean = self.total_s / self.count
        return math.sqrt(max(self.squares / self.count - mean * mean, 0.0)) / mean


class Spent(msgspec.Struct, kw_only=True):
    """Where the time of some tickets went.

    Attributes:
        shards: Rollouts of one ticket.
        tickets: Tickets settled.
        total_s: Time passed, but for that of rest while admission was held.
        collecting_s: Time that env nodes had work, as their mean.
        rounds_s: Time that any env node had work.
        training_s: Time that a ticket was training, its publication included.
        idle_s: Time that env nodes had none though nothing held admission, such as a checkpoint or
            the end of the run, or had held it just before, as their mean.
        starved_s: Likewise for the learner.
        weights_s: Time that the learner took to publish.
        rollouts: Rollouts completed.
        ordered: From their orders to their reports.
        served: Likewise, but not before the report before of the same node.
        ess: Sum of the effective sample sizes of updates, as shares of their rows.
        ess_tickets: Tickets whose updates gave one.
    """

    shards: int
    tickets: int = 0
    total_s: float = 0.0
    collecting_s: float = 0.0
    rounds_s: float = 0.0
    training_s: float = 0.0
    idle_s: float = 0.0
    starved_s: float = 0.0
    weights_s: float = 0.0
    rollouts: int = 0
    ordered: Spread = msgspec.field(default_factory=Spread)
    served: Spread = msgspec.field(default_factory=Spread)
    ess: float = 0.0
    ess_tickets: int = 0

    def clear(self) -> None:
        """Begin anew."""
        fresh = Spent(shards=self.shards)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def since(self, dt_s: float, *, working: float, training: bool, held: bool) -> None:
        """Let time pass in which ``working`` of the env nodes, a share, had work."""
        if held and not working and not training:
            return
        self.total_s += dt_s
        self.collecting_s += dt_s * working
        if working:
            self.rounds_s += dt_s
        if training:
            self.training_s += dt_s
        if not held:
            self.idle_s += dt_s * (1 - working)
            if not training:
                self.starved_s += dt_s

    def completed(self, ordered_s: float, served_s: float) -> None:
        """Count a rollout, with the time since its order and that since the node was through."""
        self.rollouts += 1
        self.ordered.add(ordered_s)
        self.served.add(served_s)

    def settled(self, weights_s: float, ess: float | None) -> None:
        """Count a ticket."""
        self.tickets += 1
        self.weights_s += weights_s
        if ess is not None:
            self.ess += ess
            self.ess_tickets += 1

    @property
    def collecting_period_s(self) -> float:
        """What a round takes env nodes that always have work."""
        return self.collecting_s * self.shards / max(self.rollouts, 1)

    @property
    def training_period_s(self) -> float:
        """What a ticket takes a learner that always has work."""
        return self.training_s / max(self.tickets, 1)

    @property
    def dispersion(self) -> float:
        """Coefficient of variation of the time that a rollout takes.

        A node collects the rollouts that it was told to one after the other or side by side, which
        nobody says here. Whichever it is, the times measured in the wrong way differ more.
        """
        return min(self.ordered.variation, self.served.variation)

    @property
    def effective(self) -> float | None:
        """Effective sample size of an update, as a share of its rows; None where nothing says."""
        return self.ess / self.ess_tickets if self.ess_tickets else None


class AutoState(msgspec.Struct, kw_only=True):
    """What a checkpoint keeps.

    Attributes:
        degree: The degree in force; None before it was chosen.
        ceiling: Most that it may be for now, since more was too much; None for no such limit.
        calm: Looks since that limit changed.
        rate: Tickets in a second at degree 0, until they have been compared with those above it.
    """

    degree: int | None = msgspec.field(default=None, name="auto_degree")
    ceiling: int | None = msgspec.field(default=None, name="auto_ceiling")
    calm: int = msgspec.field(default=0, name="auto_calm")
    rate: float | None = msgspec.field(default=None, name="auto_rate")


class Auto:
    """Chooses the degree of a run, ticket by ticket."""

    def __init__(self, most: int, kept: AutoState, *, replays: bool):
        """Go on from ``kept``.

        Args:
            most: The largest degree that memory is laid out for.
            kept: What a checkpoint has, or nothing.
            replays: Whether rows are drawn from a replay, where they are old anyway.
        """
        self._most, self._replays = most, replays
        self._kept = kept
        self._passing = 1  # tickets of another degree, or in which code was loaded
        if kept.degree is not None:
            kept.degree = min(kept.degree, most)

    @property
    def degree(self) -> int:
        """The degree in force."""
        return self._kept.degree or 0

    def state(self) -> AutoState:
        """What a checkpoint keeps."""
        return self._kept

    def settled(self, spent: Spent) -> str | None:
        """Look at where time went since the last look, if that was long enough.

        Returns:
            What was decided and the figures that caused it; None where nothing was.
        """
        if self._passing:
            self._passing -= 1
            spent.clear()
            return None
        long = spent.total_s >= LEAST_S or (spent.total_s and spent.tickets >= ENOUGH_TICKETS)
        if spent.tickets < self._least or not long:
            return None
        before = self.degree
        why = self._begin(spent) if self._kept.degree is None else self._adjust(spent)
        if self.degree != before:
            self._passing = max(before, self.degree) + 1
        spent.clear()
        return f"{before} -> {self.degree}: {why}" if why else None

    @property
    def _least(self) -> int:
        """Tickets of a look: twice what may be under way, so that its ends don't count."""
        return LEAST_TICKETS if self._kept.degree is None else 2 * (self.degree + LEAST_TICKETS)

    def _limit(self, ess: float | None) -> int:
        if ess is not None and ess < ESS:
            return self.degree
        unmeasured = ess is None and not self._replays
        most = min(self._most, UNMEASURED_MOST) if unmeasured else self._most
        return most if self._kept.ceiling is None else min(most, self._kept.ceiling)

    def _begin(self, spent: Spent) -> str:
        kept = self._kept
        kept.degree = min(start_degree(spent), self._limit(spent.effective))
        kept.rate = spent.tickets / spent.total_s
        return (
            f"a round takes {_seconds(spent.rounds_s / spent.tickets)} to collect (rollouts "
            f"dispersed by {spent.dispersion:.2f}, {abreast(spent):.3g} rounds at once) and "
            f"{_seconds(spent.training_period_s)} to train on, of which publishing takes "
            f"{_seconds(spent.weights_s / spent.tickets)}; side by side that is {gain(spent):.0%} "
            f"faster at most; {kept.degree} of {self._most} that may be chosen"
        )

    def _adjust(self, spent: Spent) -> str | None:
        kept, ess, degree = self._kept, spent.effective, self.degree
        rate = spent.tickets / spent.total_s
        before, kept.rate = kept.rate, None if degree else rate
        if ess is not None and ess < ESS and degree:
            self._lower(degree // 2, ceiling=degree - 1)
            return f"the effective sample size is {ess:.3f} of the rows, less than {ESS}"
        if degree and before is not None and rate < (1 + GAIN / 2) * before:
            self._lower(0, ceiling=0)
            return f"{rate:.3g} rounds/s are no gain over {before:.3g} at degree 0"
        self._calm_down()
        slower, waits = slower_side(spent)
        if waits <= WAITING or degree >= self._limit(ess):
            return None
        kept.degree = degree + 1
        told = "none is reported" if ess is None else f"{ess:.2f} of the rows"
        return f"{slower} is the slower side and waits {waits:.0%}; effective sample size: {told}"

    def _lower(self, degree: int, *, ceiling: int) -> None:
        self._kept.degree, self._kept.ceiling, self._kept.calm = degree, ceiling, 0

    def _calm_down(self) -> None:
        """After some time a degree that was too high may be tried again."""
        kept = self._kept
        if kept.ceiling is None:
            return
        kept.calm += 1
        if kept.calm >= CALM:
            kept.ceiling, kept.calm = kept.ceiling + 1, 0


def abreast(spent: Spent) -> float:
    """Rounds that env nodes can have under way at once, measured at degree 0.

    Above 1 where some of them wait for the slowest of a round: above degree 0 they would not.
    """
    whole_s = spent.collecting_period_s
    return max(1.0, spent.rounds_s / spent.tickets / whole_s) if whole_s else 1.0


def gain(spent: Spent) -> float:
    """How much faster rounds come side by side than one after the other, measured at degree 0."""
    period_s = max(spent.collecting_period_s, spent.training_period_s)
    return (spent.rounds_s + spent.training_s) / spent.tickets / period_s - 1 if period_s else 0.0


def start_degree(spent: Spent) -> int:
    """Rounds that are under way when no side waits, measured at degree 0: Little's law."""
    if gain(spent) < GAIN:
        return 0
    latency_s = spent.rounds_s / spent.tickets * (1 + spent.dispersion)
    latency_s += spent.weights_s / spent.tickets
    return math.ceil(latency_s / max(spent.collecting_period_s, spent.training_period_s))


def slower_side(spent: Spent) -> tuple[str, float]:
    """The side that sets the pace, and the share of its time that it waits."""
    if spent.collecting_period_s >= spent.training_period_s:
        return "collecting", spent.idle_s / spent.total_s
    return "training", spent.starved_s / spent.total_s


def effective_share(metrics: dict[str, float]) -> float | None:
    """Effective sample size of an update as a share of its rows, from what its learner reports.

    An algorithm that weighs rows by importance reports ``ess``. One that reports the divergence of
    the new policy from the one that acted tells it nearly as well: where log-ratios are normal with
    variance v, the divergence is v / 2 and the effective share exp(-v).
    """
    value = metrics.get("ess")
    if value is None and "approx_kl" in metrics:
        value = math.exp(-2 * max(metrics["approx_kl"], 0.0))
    return value if value is not None and math.isfinite(value) else None


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
