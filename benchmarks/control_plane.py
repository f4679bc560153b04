"""What the control plane costs at 100, 1,000 and 10,000 env nodes, against 50,000 events/s.

    python -m benchmarks.control_plane [--quick]

The real scheduler core handles the events of a cluster in virtual time
(`benchmarks.virtual_cluster`): one shard per node, rollouts of 1 s on average under four laws of
duration, 1 % of the nodes dying on the way, one optimizer, `off_policy_degree` 5. The ratio is the
least rate at 10,000 nodes over all laws, in events per second of processor time, divided by
50,000. `wire` is what the messages cost beyond that: MessagePack, and a
ZeroMQ router over ipc in the launcher's thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import print_result
from benchmarks.virtual_cluster import LAWS, Outcome, VirtualCluster, spread
from fast_core.messages import Collect, Message, RolloutOrder, RolloutReady, RolloutRef, Train
from fast_core.messages.wire import encode
from fast_core.messages.zmq_channel import ZmqHub, ZmqNodeChannel

TARGET = 1.0
NEEDED_EVENTS_PER_S = 50_000
SIZES = (100, 1_000, 10_000)
DEGREE = 5
DEATHS = 0.01
SENT = 5_000
ARRIVAL_LIMIT_S = 10.0
READY = RolloutReady("env-4711", 4711, 1, 3, 999, 999, 3999, (200.0,) * 3, (200,) * 3)
COLLECT = Collect((RolloutOrder(4711, 1, 3, 999, 999, 3999),))


def run_cluster(nodes: int, tickets: int) -> dict[str, Outcome]:
    """One run for each law; each checks that no rollout is lost."""
    deaths = round(nodes * DEATHS)
    return {
        name: VirtualCluster(nodes, law, degree=DEGREE, tickets=tickets, deaths=deaths).run()
        for name, law in LAWS.items()
    }


def events_per_s(outcome: Outcome) -> float:
    """Of processor time in the scheduler core."""
    return outcome.events / outcome.handled_s


def wire_us() -> tuple[float, float]:
    """Processor time of the launcher's thread to receive an event and to send a command, us."""
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as folder:
        hub = ZmqHub(str(Path(folder) / "s"))
        channel = ZmqNodeChannel(str(Path(folder) / "s"), "env-0", lambda: None)
        try:
            channel.send(READY)
            _await(lambda: bool(hub.receive()))  # it is connected
            sending_us = _each_us(lambda: sum(_send(hub) for _ in range(SENT)))
            for _ in range(SENT):
                channel.send(READY)
            channel.close()  # which delivers them
            time.sleep(0.2)  # from the node's ZeroMQ into ours
            receiving_us = _each_us(lambda: len(hub.receive()))
        finally:
            channel.close()
            hub.close()
    return receiving_us, sending_us


def _send(hub: ZmqHub) -> int:
    hub.send("env-0", COLLECT)
    return 1


def _each_us(work: Callable[[], int]) -> float:
    """Processor time of this thread per message that ``work`` says it took."""
    begun_s = time.thread_time()
    count = work()
    return 1e6 * (time.thread_time() - begun_s) / max(count, 1)


def _await(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + ARRIVAL_LIMIT_S
    while not holds() and time.monotonic() < deadline_s:
        time.sleep(0.01)


def train_of(nodes: int) -> Train:
    """The order to train on one rollout of each node."""
    return Train(9, tuple(RolloutRef(node, 1, 0, 9) for node in range(nodes)), 10**6, 4)


def encoding_us(message: Message, repeats: int = 20) -> float:
    """Processor time to encode ``message``."""
    return _each_us(lambda: sum(bool(encode(message)) for _ in range(repeats)))


def report(nodes: int, outcomes: dict[str, Outcome], wire: tuple[float, float]) -> dict[str, float]:
    """Figures of one size, for one rollout per node and second."""
    slowest = min(map(events_per_s, outcomes.values()))
    train = train_of(nodes)
    ticket_us = encoding_us(train)  # once for a ticket, that is once a second
    receiving_us, sending_us = wire
    core_share = (nodes + 1) / slowest
    wire_share = 1e-6 * ((receiving_us + sending_us) * nodes + ticket_us)
    sent = sum(len(encode(message)) for message in (READY, COLLECT))
    return {
        "events_per_s": slowest,
        "events_needed_per_s": nodes + 1,
        "core_share": core_share,
        "wire_share": wire_share,
        "mib_per_s": (nodes * sent + len(encode(train))) / 2**20,
        "longest_event_ms": max(outcome.longest_ms for outcome in outcomes.values()),
        "commands_per_event": max(o.commands / o.events for o in outcomes.values()),
    }


def show(sizes: dict[int, dict[str, float]], laws: dict[str, Outcome]) -> None:
    """Print both tables."""
    console = Console(width=110)
    heads = ("events/s", "needed", "core: scheduler", "wire", "MiB/s", "longest, ms", "commands")
    table = Table("env nodes", *heads, title="one rollout per node and second")
    for nodes, found in sizes.items():
        rates = [f"{found[name]:,.0f}" for name in ("events_per_s", "events_needed_per_s")]
        shares = [f"{100 * found[name]:.2f} %" for name in ("core_share", "wire_share")]
        others = ("mib_per_s", "longest_event_ms", "commands_per_event")
        table.add_row(f"{nodes:,}", *rates, *shares, *(f"{found[name]:.2f}" for name in others))
    console.print(table)
    heads = ("events/s", "dropped", "rollouts of a shard: least, median, most", "tickets absent")
    table = Table("law", *heads, title=f"{max(sizes):,} nodes, degree {DEGREE}, 1 % die")
    for name, outcome in laws.items():
        least, median, most = spread(outcome.trained, range(max(sizes)))
        counts = f"{least}, {median:g}, {most}"
        cells = (f"{events_per_s(outcome):,.0f}", str(outcome.dropped), counts, str(outcome.absent))
        table.add_row(name, *cells)
    console.print(table)


def main() -> None:
    """Simulate every size, print the tables and the last line."""
    parser = argparse.ArgumentParser(description="The cost of the control plane.")
    parser.add_argument("--quick", action="store_true", help="fewer rollouts of each shard")
    tickets = 8 if parser.parse_args().quick else 30
    wire = wire_us()
    sizes, outcomes = {}, {}
    for nodes in SIZES:
        outcomes = run_cluster(nodes, tickets)
        sizes[nodes] = report(nodes, outcomes, wire)
        print(f"{nodes:,} env nodes: {sizes[nodes]['events_per_s']:,.0f} events/s", flush=True)
    show(sizes, outcomes)
    figures = {f"n{n}_{name}": value for n, found in sizes.items() for name, value in found.items()}
    figures |= {"receiving_us": wire[0], "sending_us": wire[1]}
    least = sizes[SIZES[-1]]["events_per_s"]
    print_result("control_plane", least / NEEDED_EVENTS_PER_S, TARGET, **figures)


if __name__ == "__main__":
    main()
