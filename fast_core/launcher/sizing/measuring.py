"""What `policy.placement: auto` measures, inside two children of the fork server.

One steps an environment, acts, and asks for actions as an env node does; the other is a policy
node. They exchange through a small memory of their own, before the run's is made.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict

import msgspec
import numpy as np
import setproctitle

from fast_core.algorithm import Array
from fast_core.envs import make_batch
from fast_core.envs.masks import valid_action
from fast_core.launcher.processes.start import MeasureStart
from fast_core.launcher.processes.tree import frame, take
from fast_core.launcher.sizing.placement import Timings
from fast_core.memory import StatsRow
from fast_core.messages.inproc import InprocHub
from fast_core.nodes.act.current_policy import CurrentPolicy
from fast_core.nodes.act.policy import PolicyNode
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.run.mail import Request
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.seeding import Role
from fast_core.system.threads import default_threads, set_threads

STEP_S, ACT_S, HANDOVER_S = 0.4, 0.25, 0.3
MOST_TIMES = 2_000
WAIT_S = 1.0
REST_S = 20e-6


def serve_main(name: str, link: socket.socket) -> int:
    """Be the policy node until killed."""
    context = _context(name, link)
    node: Node = PolicyNode(context)
    set_threads(node.threads)
    node.run()
    return 0


def measure_main(name: str, link: socket.socket) -> int:
    """Measure everything and send it."""
    context = _context(name, link)
    set_threads(default_threads())
    config = context.plan.config
    envs, group = config.rollout.envs_per_shard, context.memory.request(0, 0).rows
    obs, group_us, group_cpu_us = _step(context.plan, group)
    if config.environment.one_by_one:  # one after the other, whatever their number
        shard_us, shard_cpu_us = group_us * envs / group, group_cpu_us * envs / group
    else:
        _, shard_us, shard_cpu_us = _step(context.plan, envs)
    rows = np.repeat(obs, envs, axis=0)
    act_beside_us = _act_beside(context, rows)
    round_us, busy_us = _ask(context, rows)
    act_node_us = min(_act_as_served(context, rows, busy_us), round_us)
    handover_us = round_us - act_node_us
    parts = Timings(
        shard_us, shard_cpu_us, group_us, group_cpu_us, act_beside_us, act_node_us, handover_us
    )
    link.sendall(frame(msgspec.msgpack.encode(asdict(parts))))
    link.close()
    return 0


def _context(name: str, link: socket.socket) -> NodeContext:
    start, descriptor = take(link)
    assert isinstance(start, MeasureStart)
    node = start.node
    setproctitle.setproctitle(f"fastloop: {name} of {start.plan.config.name}")
    memory = RunMemory.attach(start.plan, descriptor)
    os.close(descriptor)
    return NodeContext(node, 0, start.plan, memory, InprocHub().connect(node))


def _step(plan: RunPlan, envs: int) -> tuple[Array, float, float]:
    """What the policy sees of one environment, ``[1, ...]``, and what a step of ``envs`` takes, us.

    They are stepped as in a run: what a batch costs whatever its size is not counted for each.
    """
    environment, space = plan.environment, plan.environment.row
    row = np.zeros((envs, *space.shape), space.row_dtype)
    batch = make_batch(
        plan.config.environment,
        seed=plan.config.seed,
        shard=0,
        envs=envs,
        role=Role.PROBE,
        keep_actions=False,
    )
    reward, ends, final = np.zeros(envs, np.float32), np.zeros((2, envs), np.bool_), row.copy()
    action = np.stack([valid_action(environment.action)] * envs)

    def choose() -> None:
        masks = row[environment.action_mask] if environment.action_mask else ()
        for place, mask in enumerate(masks):
            action[place] = valid_action(environment.action, mask)

    def step() -> None:
        batch.step(
            action,
            next_obs=row,
            reward=reward,
            terminated=ends[0],
            truncated=ends[1],
            final_obs=final,
        )

    try:
        batch.reset(row)
        choose()
        begun_cpu_s = time.process_time()
        times = _times(step, STEP_S, after=choose)
        cpu_s = time.process_time() - begun_cpu_s
    finally:
        batch.close()
    one = row[:1]
    seen = one if environment.frames == 1 else np.repeat(one[:, None], environment.frames, axis=1)
    # The mean: rare long steps, resets among them, take their share of a run too.
    return seen, 1e6 * statistics.fmean(times), 1e6 * cpu_s / len(times)


def _act_beside(context: NodeContext, rows: Array) -> float:
    """A forward pass over a shard, us."""
    plan = context.plan
    current = CurrentPolicy(context, plan.policy_setup())
    current.refresh(0)
    noise, state = _given(plan, len(rows))

    def act() -> None:
        output = current.policy.act(rows, noise=noise, explore=True, state=state)
        current.policy.environment_action(output.action)

    act()  # the first one allocates and may compile
    return 1e6 * statistics.median(_times(act, ACT_S))


def _act_as_served(context: NodeContext, rows: Array, busy_us: float) -> float:
    """A forward pass over a group with the threads of a policy node, us.

    Measured here, because what the policy node shows as busy holds the better part of a
    hand-over too; elsewhere than on the CPU ``busy_us`` has to do.
    """
    served = context.plan.config.nodes.policy
    if served.device != "cpu":
        return busy_us
    set_threads(default_threads() if served.threads == "auto" else served.threads)
    group = rows[: context.memory.request(0, 0).rows]
    act_us = _act_beside(context, group)
    set_threads(default_threads())
    return act_us


def _given(plan: RunPlan, rows: int) -> tuple[Array, Array | None]:
    noise = plan.blueprint.noise(plan.environment)
    size = plan.blueprint.state_size(plan.environment)
    state = np.zeros((rows, size), np.float32) if size else None
    return np.full((rows, *noise.shape), 0.5, np.float32), state


def _ask(context: NodeContext, rows: Array) -> tuple[float, float]:
    """From a group's request to its reply, and how long of it the policy node was busy, us."""
    plan, memory = context.plan, context.memory
    request, reply = memory.request(0, 0), memory.reply(0, 0)
    bell = memory.doorbell(plan.names.policy[0])
    noise, state = _given(plan, request.rows)
    ours = context.doorbell

    def ask() -> None:
        request["obs"][...] = rows[: request.rows]
        request["noise"][...] = noise
        if state is not None:
            request["state"][...] = state
        number = request.number() + 1
        request.publish(number, Request(incarnation=1, min_version=0, asker=0))
        bell.ring()
        while True:
            seen = ours.value()
            if reply.number() == number:
                return
            ours.wait(seen, WAIT_S)

    ask()  # waits until the policy node is there
    policy = memory.stats(plan.names.policy[0])
    acting_us: list[float] = []
    busy_ns = _rested(policy).busy_ns

    def note() -> None:
        nonlocal busy_ns
        before_ns, busy_ns = busy_ns, _rested(policy).busy_ns
        acting_us.append((busy_ns - before_ns) / 1e3)

    # Medians, because one of the two may have to wait for a core that others use.
    round_us = 1e6 * statistics.median(_times(ask, HANDOVER_S, after=note))
    return round_us, statistics.median(acting_us)


def _rested(policy: StatsRow) -> StatsRow:
    """The policy node's counters when it waits again; asked anew at once, it never would."""
    while (row := policy.snapshot()).state == NodeState.ACTING:
        time.sleep(REST_S)
    return row


def _times(
    call: Callable[[], None], limit_s: float, *, after: Callable[[], None] = lambda: None
) -> list[float]:
    """Seconds of each of several calls; at least one, and no new one after ``limit_s``.

    ``after`` is called after each of them and not timed.
    """
    times: list[float] = []
    end_s = time.perf_counter() + limit_s
    while not times or (time.perf_counter() < end_s and len(times) < MOST_TIMES):
        before_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - before_s)
        after()
    return times
