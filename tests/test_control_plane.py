"""The simulated cluster of the control plane's benchmark: nothing lost, nobody forgotten."""

from __future__ import annotations

import pytest

from benchmarks.virtual_cluster import LAWS, VirtualCluster, spread
from tests.forms import slow_but

pytestmark = pytest.mark.usefixtures("what_there_is_overlooked")
NODES, DEGREE, TICKETS, DEATHS = 100, 5, 30, 10


@pytest.mark.parametrize("law", slow_but(["Pareto", "stragglers"], LAWS))
def test_every_law_loses_nothing_and_forgets_nobody(law: str) -> None:
    """The cluster itself checks that each rollout is trained once or counted as dropped."""
    cluster = VirtualCluster(NODES, LAWS[law], degree=DEGREE, tickets=TICKETS, deaths=DEATHS)
    outcome = cluster.run()
    assert sum(outcome.trained.values()) == NODES * TICKETS
    assert 0 < outcome.dropped <= DEATHS * 2
    assert outcome.absent <= 2 * DEGREE + 1
    least, median, most = spread(outcome.trained, range(NODES))
    assert least >= TICKETS // (2 * DEGREE + 2)
    assert most <= 2 * median


def test_equal_nodes_get_equal_work() -> None:
    cluster = VirtualCluster(NODES, LAWS["constant"], degree=DEGREE, tickets=TICKETS, deaths=0)
    least, _, most = spread(cluster.run().trained, range(NODES))
    assert most - least <= 1


@pytest.mark.parametrize("nodes", [50, 400])
def test_events_have_one_command_on_average_at_any_size(nodes: int) -> None:
    cluster = VirtualCluster(nodes, LAWS["lognormal"], degree=DEGREE, tickets=10, deaths=0)
    outcome = cluster.run()
    assert outcome.commands <= 1.2 * outcome.events
