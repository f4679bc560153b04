"""How many rollouts may be started now.

Ticket ``i`` starts only if ``i <= settled + degree``: one counter over accepted and running work.
Where the degree has fallen since, a ticket that has begun is filled once it may begin again.
"""

from __future__ import annotations


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
