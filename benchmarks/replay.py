"""Replay against cpprb, torchrl and a bare NumPy gather: draws of 256 and additions.

    python -m benchmarks.replay [--quick]

Vectors: 1e6 transitions of 17 float32 observed and 6 acted. Images: 1e5 transitions of four
stacked frames of 84x84 bytes, of which FastLoop stores each once. A draw by priority sets new
priorities for the 256 rows. FastLoop draws into arrays that exist, as the replay node does into
batch slots, from 64 (images: 8) environments whose episodes end now and then. Sequences of 16 rows
and 8 before them, 64 a draw, stand beside plain draws, by rows. The ratio is that of draws by
priority on vectors, FastLoop / cpprb; the others and their targets are figures.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import alternate, installed, print_result
from benchmarks.peer_replay import (
    ALPHA,
    BATCH,
    BETA,
    CHUNK,
    Peer,
    Task,
    cpprb,
    fill,
    gather,
    missing,
    torchrl,
)
from fast_core.algorithm import Window
from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.memory import PriorityTree, ReplayLog, ReplayReader, Segment, replay_fields

TARGET = 2.0
PEERS = ("cpprb", "torchrl")
TASKS = (
    Task("vectors", 1_000_000, (17,), np.float32, 1, 6),
    Task("images", 100_000, (84, 84), np.uint8, 4, 1),
)
ENVS = {"vectors": 64, "images": 8}
EPISODE_STEPS = 1000
SEQUENCES, WINDOW = 64, Window(16, 8)
SECONDS = 0.4
# By figure: at least, FastLoop's rate divided by the other's.
TARGETS = {
    "vectors_sequence_rows_ratio_to_draw": 0.5,
    "images_sequence_rows_ratio_to_draw": 0.5,
    "vectors_draw_ratio_to_gather": 1 / 1.3,
    "vectors_by_priority_ratio_to_cpprb": 2.0,
    "vectors_draw_ratio_to_torchrl": 4.0,
    "vectors_by_priority_ratio_to_torchrl": 4.0,
    "images_draw_ratio_to_cpprb": 1.2,
    "images_by_priority_ratio_to_cpprb": 1.2,
    "images_draw_ratio_to_torchrl": 8.0,
    "images_by_priority_ratio_to_torchrl": 8.0,
}


def fastloop(task: Task) -> tuple[Peer, Callable[[], object], float]:
    """A filled replay memory, what draws sequences of it, and its bytes by the least possible."""
    envs = ENVS[task.name]
    fields = replay_fields(
        SpaceSpec("box", task.row, np.dtype(task.dtype).name),
        FieldSpec("action", (task.actions,), "float32"),
    )
    capacity = task.capacity // envs
    nbytes = ReplayLog.nbytes(fields, capacity, envs)
    with Segment.create(nbytes) as segment:
        segment.touch()
        log = ReplayLog.create(segment.buffer, fields, capacity, envs)
    seed = np.random.SeedSequence(0)
    reader = ReplayReader([log], steps=1, gamma=0.99, frames=task.frames, seed=seed)
    tree = PriorityTree(reader.leaves, ALPHA, 1e-6, seed)
    batch, error = reader.arrays(BATCH), np.random.default_rng(1).random(BATCH, np.float32)
    unrolled = ReplayReader(
        [log], steps=WINDOW.steps, gamma=0.99, frames=task.frames, window=WINDOW, seed=seed
    )
    sequences = unrolled.arrays(SEQUENCES)

    def draw_by_priority() -> None:
        reader.draw(batch, tree, BETA)
        reader.update(tree, batch.log, batch.row, error)

    add = adder(log, task)
    fill(add, task)
    least = task.capacity * sum(column.row_nbytes for column in fields)
    peer = Peer(add, lambda: reader.draw(batch), draw_by_priority, nbytes)
    return peer, lambda: unrolled.draw(sequences), nbytes / least


def adder(log: ReplayLog, task: Task) -> Callable[[], None]:
    """Adds ``CHUNK`` transitions: one step of as many environments, or several steps of fewer."""
    envs = log.envs
    rows, action = task.random_rows(envs, stacked=False), np.zeros((envs, task.actions), np.float32)
    reward, never = np.ones(envs, np.float32), np.zeros(envs, bool)
    steps = 0

    def add() -> None:
        nonlocal steps
        for _ in range(CHUNK // envs):
            steps += 1
            ended = never
            if steps % (EPISODE_STEPS // envs) == 0:  # one environment after the other
                ended = np.arange(envs) == steps // (EPISODE_STEPS // envs) % envs
            log.append(rows, action, reward, never, ended, rows)

    return add


def rate(call: Callable[[], object]) -> float:
    """Calls per second, over as many as fit in a moment."""
    end_s = time.perf_counter() + 0.02
    while time.perf_counter() < end_s:
        call()
    count, begin_s = 0, time.perf_counter()
    while time.perf_counter() < begin_s + SECONDS:
        for _ in range(8):
            call()
        count += 8
    return count / (time.perf_counter() - begin_s)


def against(task: Task, kind: str, ours: Peer, other: str, theirs: Peer, rounds: int) -> dict:
    """Rates of both in turn, and how much faster ours is."""
    calls = [getattr(peer, kind) for peer in (ours, theirs)]
    found = alternate(rounds, fastloop=lambda: rate(calls[0]), other=lambda: rate(calls[1]))
    name = {"add": "add", "draw": "draw", "draw_by_priority": "by_priority"}[kind]
    key, ratio = f"{task.name}_{name}", found["fastloop"] / found["other"]
    target = TARGETS.get(f"{key}_ratio_to_{other}")
    wanted = "" if target is None else f" (target {target:.2f})"
    unit = CHUNK if kind == "add" else 1
    print(
        f"{task.name} {name}: FastLoop {unit * found['fastloop']:,.0f}/s, {other} "
        f"{unit * found['other']:,.0f}/s, ratio {ratio:.2f}{wanted}",
        flush=True,
    )
    return {
        f"{key}_per_s": unit * found["fastloop"],
        f"{key}_{other}_per_s": unit * found["other"],
        f"{key}_ratio_to_{other}": ratio,
    }


def beside(task: Task, ours: Peer, draw_sequences: Callable[[], object], rounds: int) -> dict:
    """Rows that sequences give a second, and plain draws."""
    found = alternate(
        rounds,
        sequences=lambda: SEQUENCES * WINDOW.length * rate(draw_sequences),
        plain=lambda: BATCH * rate(ours.draw),
    )
    key, ratio = f"{task.name}_sequence_rows", found["sequences"] / found["plain"]
    wanted = TARGETS[f"{key}_ratio_to_draw"]
    print(
        f"{task.name} sequences: {found['sequences']:,.0f} rows/s, plain draws "
        f"{found['plain']:,.0f}, ratio {ratio:.2f} (target {wanted:.2f})",
        flush=True,
    )
    return {f"{key}_per_s": found["sequences"], f"{key}_ratio_to_draw": ratio}


def measure(task: Task, rounds: int, skipped: list[str]) -> dict[str, float]:
    """All figures of one task; peers are made and dropped one by one, they take gigabytes."""
    ours, draw_sequences, overhead = fastloop(task)
    figures: dict[str, float] = {f"{task.name}_bytes_by_least": overhead}
    print(f"{task.name}: {overhead:.3f} times the least possible memory", flush=True)
    figures |= beside(task, ours, draw_sequences, rounds)
    figures |= against(task, "draw", ours, "gather", gather(task), rounds)
    for name, make in (("cpprb", cpprb), ("torchrl", torchrl)):
        if installed(name) is None:
            continue
        for prioritized in (False, True):
            if prioritized and any(name in reason for reason in skipped):
                continue
            gc.collect()
            theirs = make(task, prioritized=prioritized)
            kinds = ("draw_by_priority",) if prioritized else ("add", "draw")
            for kind in kinds:
                figures |= against(task, kind, ours, name, theirs, rounds)
            figures[f"{task.name}_bytes_ratio_to_{name}"] = ours.nbytes / theirs.nbytes
    return figures


def main() -> None:
    """Measures everything and prints the last line."""
    parser = argparse.ArgumentParser(description="Replay against cpprb, torchrl and NumPy.")
    parser.add_argument("--quick", action="store_true", help="three rounds instead of nine")
    rounds = 3 if parser.parse_args().quick else 9
    skipped = missing()
    figures: dict[str, float] = {}
    for task in TASKS:
        figures |= measure(task, rounds, skipped)
    missed = [name for name, target in TARGETS.items() if figures.get(name, target) < target]
    print(f"below target: {', '.join(missed) or 'none'}")
    ratio = figures.get("vectors_by_priority_ratio_to_cpprb")
    print_result("replay", ratio, TARGET, skipped=skipped, **figures)


if __name__ == "__main__":
    main()
