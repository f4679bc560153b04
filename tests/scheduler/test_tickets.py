from fast_core.messages import RolloutOrder
from fast_core.scheduler.ledger import Rollout, RolloutState
from fast_core.scheduler.tickets import Merged, Tickets


class Bench:
    """Rollouts by name, to say in one line what completes and what is merged."""

    def __init__(self, shards: int, degree: int, *, drops: bool = False):
        self.tickets = Tickets(shards, 0, drops=drops)
        self.degree = degree
        self.completed = 0
        self.rollouts: dict[str, Rollout] = {}

    def start(self, names: str) -> None:
        for name in names:
            order = RolloutOrder(ord(name) - ord("a"), 1, 0, 1, 0, 0)
            rollout = Rollout(order, self.tickets.settled + self.degree)
            self.rollouts[name] = rollout
            self.tickets.begin(rollout)

    def complete(self, name: str) -> str | None:
        self.completed += 1
        rollout = self.rollouts[name]
        rollout.place, rollout.completion = RolloutState.READY, self.completed
        self.tickets.complete(rollout)
        return self.merge()

    def merge(self) -> str | None:
        merged = self.tickets.merge(in_shard_order=self.degree == 0)
        if merged is None:
            return None
        self.tickets.train(Merged(merged, 10 * len(merged), self.tickets.merged - 1))
        names = {id(rollout): name for name, rollout in self.rollouts.items()}
        return "".join(names[id(rollout)] for rollout in merged)


def test_straggler_is_left_behind_while_the_bound_allows() -> None:
    bench = Bench(2, 1)
    bench.start("abcd")  # started at settled 0: ticket 1 is the last they may join
    assert bench.complete("b") is None
    assert bench.complete("c") == "bc"
    bench.tickets.settle()
    bench.start("ef")  # may join ticket 2
    assert bench.complete("e") is None
    assert bench.complete("f") is None, "ticket 1 without a would break the bound"
    assert bench.complete("d") is None
    assert bench.complete("a") == "da"
    assert bench.merge() == "ef"


def test_due_rollouts_replace_later_ones_but_keep_completion_order() -> None:
    bench = Bench(3, 1)
    bench.start("abcdef")
    for name in "abc":
        bench.complete(name)
    bench.tickets.settle()
    bench.start("ghi")
    assert [bench.complete(name) for name in "gdehf"] == [None, None, None, None, "def"]
    assert bench.complete("i") == "ghi"


def test_tickets_settle_in_order_and_rest_means_nothing_is_open() -> None:
    bench = Bench(1, 1)
    tickets = bench.tickets
    assert tickets.quiescent
    bench.start("ab")
    bench.complete("b")
    bench.complete("a")
    assert (tickets.merged, tickets.settled, tickets.training) == (2, 0, 2)
    assert tickets.next_to_settle is not None and tickets.next_to_settle.granted == 0
    assert [rollout.order.shard for rollout in tickets.settle().rollouts] == [1]
    assert not tickets.quiescent
    assert tickets.next_to_settle.granted == 1
    assert [rollout.order.shard for rollout in tickets.settle().rollouts] == [0]
    assert tickets.quiescent and tickets.next_to_settle is None


def test_queues_do_not_grow_with_the_length_of_the_run() -> None:
    for degree in (0, 1, 3):
        bench = Bench(2, degree)
        for _ in range(50):
            bench.start("ab")
            bench.complete("b")
            bench.complete("a")
            bench.tickets.settle()
        assert len(bench.tickets._open) <= 2 * (degree + 1)
        assert len(bench.tickets._ready) <= 2 * (degree + 1)


def test_straggler_may_be_given_up_and_its_place_goes_to_another() -> None:
    bench = Bench(2, 1, drops=True)
    bench.start("abcd")
    assert bench.complete("b") is None
    assert bench.complete("c") == "bc"
    bench.tickets.settle()
    bench.start("ef")
    assert bench.complete("e") is None
    assert (bench.tickets.started, bench.tickets.late) == (6, 0), "one alone makes no ticket"
    bench.rollouts["d"].place = RolloutState.STAGED  # complete, and with the user's nodes: it comes
    assert bench.complete("f") is None, "d is waited for"
    assert bench.tickets.late == 1 and bench.tickets.started == 5
    assert bench.complete("d") == "ed"
    assert bench.rollouts["a"].place is RolloutState.LATE
    assert not bench.tickets.quiescent


def test_rollout_that_must_train_sooner_takes_those_before_it_along() -> None:
    bench = Bench(2, 3)
    bench.start("abcde")  # in ticket 3 at the latest
    for pair in ("bc", "de"):
        assert [bench.complete(name) for name in pair] == [None, pair]
        bench.tickets.settle()
    bench.degree = 0
    bench.start("f")  # in ticket 2
    assert bench.rollouts["a"].last_ticket == 2
    assert bench.complete("f") is None
    assert bench.complete("a") == "af"
