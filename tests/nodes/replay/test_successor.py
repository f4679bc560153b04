"""A replay node that is killed after any line: its successor goes on as if nothing had been."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fast_core.config import RestartsConfig, RunConfig, SupervisionConfig
from fast_core.messages import Train
from fast_core.messages.inproc import InprocHub
from fast_core.nodes.replay.batch_slots import BatchSlots
from fast_core.nodes.replay.node import ReplayNode
from tests.forms import slow_but
from tests.nodes.replay_stage import SHARDS, TICKET, ReplayStage, SayingConfig, replay_config
from tests.nodes.stage import Stage

GRANTED = 5
KEPT = SupervisionConfig(restarts=RestartsConfig(replay=1))
LINES = 1240  # of a life that goes on, and draws five steps


def kept(**changes: Any) -> RunConfig:
    return replay_config(supervision=KEPT, **changes)


def read_batch(ends: BatchSlots) -> bytes | None:
    batch = ends.next()
    if batch is None:
        return None
    log, row = ends.rows()
    arrays = [batch.obs, batch.next_obs, batch.reward, batch.weight, log, row]
    if batch.written is not None:
        arrays += [batch.extra["said"], batch.written]
    sha = hashlib.sha256(str((batch.env_steps, len(batch.reward))).encode())
    for array in arrays:
        sha.update(array.tobytes())
    return sha.digest()


class Run:
    """Logs that are written, optimizers that answer, and what they were given."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.stage = Stage(folder, config)
        memory, plan = self.stage.memory, self.stage.plan
        logs = [memory.replay_log(shard) for shard in range(SHARDS)]
        self.ends = [BatchSlots(plan, memory, k) for k in range(plan.optimizers)]
        self.writer = ReplayStage(self.stage, None, logs, self.ends)  # type: ignore[arg-type]
        self.given: list[bytes] = []
        self.says = isinstance(config.algorithm, SayingConfig)

    def answer(self) -> bool:
        """Finish a batch of each optimizer that has one; whether any had."""
        answered = False
        for rank, ends in enumerate(self.ends):
            if (digest := read_batch(ends)) is not None:
                self.given.append(bytes([rank]) + digest)
                error = np.frombuffer(digest, np.uint8)[: ends.rows()[0].size]
                error = error.astype(np.float32) / 16
                # That of a step of both, as far as this one has come.
                ends.version = sum(each[0] == rank for each in self.given)
                said = {"said": np.stack([error, error], 1)} if self.says else {}
                ends.finish(error, said)
                answered = True
        return answered

    def node(self, life: int) -> ReplayNode:
        return ReplayNode(replace(self.stage.context("replay-0"), life=life))


def train(ticket: int) -> Train:
    return Train(ticket, (), TICKET * ticket, 0 if ticket == 0 else GRANTED)


def never_killed(folder: Path, config: RunConfig, tickets: int) -> list[bytes]:
    run = Run(folder, config)
    node = run.node(1)
    node.setup()
    for ticket in range(tickets):
        run.writer.collect()
        node.handle(train(ticket))
        while node.work() or run.answer():
            pass
    return sorted(run.given) if len(run.ends) > 1 else run.given


def lives(of: Callable[[], object]) -> int:
    """A process that does this, and is killed when it comes to an end."""
    pid = os.fork()
    if pid == 0:
        try:
            of()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return pid


def kill_after(lines: int) -> None:
    """Let this process be killed after it has executed so many lines of FastLoop."""
    left = lines

    def trace(frame: FrameType, what: str, _: object) -> Any:
        nonlocal left
        if "fast_core" not in frame.f_code.co_filename:
            return None
        if what == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def serve(run: Run, orders: list[Train], lines: int | None) -> None:
    node, parent = run.node(2), os.getppid()
    if lines is not None:
        kill_after(lines)
    node.setup()
    for order in orders:
        node.handle(order)
    while os.getppid() == parent:
        if not node.work():
            time.sleep(0.0002)


def answer_while(run: Run, pid: int, wanted: int) -> None:
    """Answer what this process draws, until it is dead or has drawn so much."""
    deadline_s = time.monotonic() + 30.0
    while len(run.given) < wanted:
        if not run.answer() and os.waitpid(pid, os.WNOHANG)[0] == pid:
            return
        assert time.monotonic() < deadline_s, "it draws no more"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def killed(folder: Path, config: RunConfig, points: list[int]) -> list[bytes]:
    """Each ticket is served by two lives: one that is killed after so many lines, and another."""
    run = Run(folder, config)
    os.waitpid(lives(run.node(1).setup), 0)
    run.stage.hub = InprocHub()
    for ticket, lines in enumerate(points):
        run.writer.collect()
        # Nothing of the one before is drawn again.
        orders = [train(each) for each in range(max(0, ticket - 1), ticket + 1)]
        for dies_after in (lines, None):
            pid = lives(partial(serve, run, orders, dies_after))
            answer_while(run, pid, ticket * GRANTED * len(run.ends))
    return sorted(run.given) if len(run.ends) > 1 else run.given


@pytest.mark.parametrize(
    ("prioritized", "optimizers", "tickets", "says"),
    slow_but(
        [(True, 1, 12, False), (False, 1, 12, True)],
        [
            (True, 1, 12, False),
            (True, 1, 80, False),
            (False, 1, 30, False),
            (True, 2, 30, False),
            (False, 1, 12, True),
            (True, 2, 80, True),
        ],
    ),
)
def test_killed_after_any_line_it_draws_what_it_would_have_drawn(
    tmp_path: Path, prioritized: bool, optimizers: int, tickets: int, says: bool
) -> None:
    """RB-14, RING-02: each batch whole, once and in order, whatever was half done."""
    config = kept(replay={"prioritized": prioritized}, optimizers=optimizers, says=says)
    points = [1 + ticket * LINES // tickets for ticket in range(tickets)]
    found = killed(tmp_path / "killed", config, points)
    expected = never_killed(tmp_path / "whole", config, tickets)
    assert len(found) == GRANTED * (tickets - 1) * optimizers
    assert found == expected
