"""How many rollouts may be started now.

Ticket ``i`` starts only if ``i <= settled + degree``: one counter over accepted and running work.
Where the degree has fallen since, a ticket that has begun is filled once it may begin again.
"""

from __future__ import annotations

from fast_core.events import Collect, RolloutOrder
from fast_core.scheduler.ledger import Ledger
from fast_core.scheduler.tickets import Tickets


def places(
    *, started: int, settled: int, shards: int, degree: int, needed: int | None, hold: bool
) -> int:
    """Rollouts that may be started on top of ``started``.

    Args:
        started: Rollouts started so far.
        settled: Length of the settled prefix of tickets.
        shards: Rollouts of one ticket.
        degree: Tickets that may be collected ahead of training.
        needed: Number of tickets the whole run can need, None for no limit.
        hold: Begin no further ticket. One that has begun is still filled: its rollouts could not
            be trained on otherwise, and the run would never come to rest.
    """
    if started // shards > settled + degree:
        return 0
    if hold:
        return -started % shards
    tickets = settled + 1 + degree
    if needed is not None:
        tickets = min(tickets, needed)
    return max(tickets * shards - started, -started % shards)


def start_rollouts(
    ledger: Ledger,
    tickets: Tickets,
    count: int,
    degree: int,
    version: int,
    now_s: float = 0.0,
    settled: int | None = None,
) -> list[tuple[str, Collect]]:
    """Start up to ``count`` rollouts on idle shards.

    Every order asks for the newest weights committed so far. That is no older than the end of
    ticket ``i - degree - 1``, which the guarantee needs for the ticket ``i`` it is admitted for,
    and it is what allows a rollout that others overtake to be merged up to ``degree`` tickets
    after the settled prefix of this moment.

    Where weights are published less often, ``version`` is that of the newest ones and ``settled``
    the prefix that they are of.

    Returns:
        One `Collect` for every node concerned, orders by shard.
    """
    orders: dict[str, list[RolloutOrder]] = {}
    last_ticket = (tickets.settled if settled is None else settled) + degree
    while count > 0 and ledger.has_idle:
        rollout = ledger.start(tickets.started // tickets.shards, version, last_ticket)
        rollout.began_s = now_s
        tickets.begin(rollout)
        orders.setdefault(ledger.owners[rollout.order.shard], []).append(rollout.order)
        count -= 1
    for batch in orders.values():
        batch.sort(key=lambda order: order.shard)
    return [(node, Collect(tuple(batch))) for node, batch in orders.items()]
