"""What runs inside a forked child: the probe, or one node from its plan to its end."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import socket
import sys
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import setproctitle

from fast_core.envs.trying.fitting import probe_all
from fast_core.envs.trying.probe import MakingTime
from fast_core.errors import ConfigError
from fast_core.launcher.failures.blame import blaming
from fast_core.launcher.failures.description import describe_failure, environment_traceback
from fast_core.launcher.processes.start import NodeStart, ProbeStart
from fast_core.launcher.processes.tree import frame, take
from fast_core.memory import Pulse
from fast_core.messages import Ready
from fast_core.messages.zmq_channel import ZmqNodeChannel
from fast_core.monitor.logging_setup import forward_logging
from fast_core.nodes.learn.devices import check_devices
from fast_core.nodes.node import Node, NodeContext
from fast_core.run.memory import RunMemory
from fast_core.system import forks
from fast_core.system.importing import user_module
from fast_core.system.text import error_text, traceback_text
from fast_core.system.threads import set_threads

SWITCH_INTERVAL_S = 0.001
FAILED_STATUS = 1


def probe_main(name: str, link: socket.socket) -> int:
    """Find out what the environment looks like; sends the spec, or the error."""
    start, descriptor = take(link)
    os.close(descriptor)
    assert isinstance(start, ProbeStart)
    setproctitle.setproctitle(f"fastloop: {name}")
    link.sendall(frame(msgspec.msgpack.encode(_probe(start))))
    link.close()
    return 0


def _probe(start: ProbeStart) -> dict[str, object]:
    limit_s = start.environment.step_timeout_s

    def before(what: Literal["make", "call"]) -> None:
        """Let a call that does not return end this process with its stack, even one in C."""
        if what == "make":  # the launcher limits that
            faulthandler.cancel_dump_traceback_later()
        elif limit_s is not None:
            faulthandler.dump_traceback_later(limit_s, exit=True)

    faulthandler.enable()
    forks.write_stacks()
    timed = MakingTime(before)
    try:
        check_devices(start.optimizer, start.policy_device)
        spec = probe_all(
            start.environment,
            start.others,
            start.seed,
            number=start.number,
            filmed=start.filmed,
            before=timed,
        )
        faulthandler.cancel_dump_traceback_later()  # the launcher limits the rest
        with blaming(start.algorithm):
            return {"spec": start.algorithm.examine(spec), "made_s": timed.longest_s}
    except ConfigError as error:
        return {"config_error": str(error), "traceback": environment_traceback(error)}
    # a process boundary: whatever it was, the launcher shows it
    except BaseException as error:
        forks.leave_if_copy(error)
        return {"error": error_text(error), "traceback": traceback_text(error)}
    finally:
        faulthandler.cancel_dump_traceback_later()


def node_main(name: str, link: socket.socket) -> int:
    """Live as the node that the launcher's `NodeStart` describes."""
    start, descriptor = take(link)
    link.close()
    assert isinstance(start, NodeStart)
    # A batch system signals every process of a job; the launcher then ends the run in order.
    for number in forks.STOP_SIGNALS:
        forks.take(number, forks.leave_to_parent)
    _redirect_output(Path(start.plan.run_directory) / "logs" / f"{name}.log")
    setproctitle.setproctitle(f"fastloop: {name} of {start.plan.config.name}")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    memory = RunMemory.attach(start.plan, descriptor)
    os.close(descriptor)
    ring = memory.doorbell(name).ring
    channel = ZmqNodeChannel(start.socket_path, name, ring, start.peer)
    forward_logging(name, channel.try_send)
    context = NodeContext(
        name=name,
        rank=start.plan.roles[name].rank,
        plan=start.plan,
        memory=memory,
        channel=channel,
        life=start.life,
        shards=start.shards,
    )
    pulse = Pulse.begin(memory.pulse(name))
    try:
        return _live(context, start.plan.roles[name].node_class)
    finally:
        channel.close()
        pulse.close()


def _live(context: NodeContext, node_class: str) -> int:
    """Set up, run and close one node; a failure becomes a `Failed` event."""
    seed_globals(context)
    node: Node | None = None
    status, begun = 0, False
    try:
        module, _, name = node_class.partition(":")
        node = getattr(user_module(module), name)(context)
        set_threads(node.threads)
        node.setup()
        begun = True
        context.channel.send(Ready(context.name, os.getpid()))
        node.run()
    except BaseException as error:  # the process boundary of a node
        forks.leave_if_copy(error)
        status = FAILED_STATUS
        with contextlib.suppress(OSError):  # into the log, in case the channel is what failed
            print(traceback_text(error), file=sys.stderr)
        begun = begun or context.life > 1  # the configuration fitted before
        context.channel.send(describe_failure(context.name, node, error, begun=begun))
    try:
        if node is not None:
            node.close()
    except BaseException as error:
        forks.leave_if_copy(error)
        if status == 0:
            context.channel.send(describe_failure(context.name, node, error))
        status = FAILED_STATUS
    return status


def seed_globals(context: NodeContext) -> None:
    """Give user code that draws from global generators a stream of its own in every node and life.

    That of the first life is keyed by the node alone.
    """
    row = context.plan.names.number(context.name)
    key = (0, row) if context.life == 1 else (0, row, context.life)
    sequence = np.random.SeedSequence(context.plan.config.seed, spawn_key=key)
    first, second = sequence.generate_state(2)
    random.seed(int(first))
    np.random.seed(int(second))  # noqa: NPY002 - simulators still draw from it


def _redirect_output(path: Path) -> None:
    """Send raw output, also of C code and of crashes, to the node's own log file.

    Where there can be none (the disk is full), it stays with the fork server's.
    """
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        print(f"can't write {path}: {error.strerror}", file=sys.stderr)
    else:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    faulthandler.enable(file=2)
    forks.write_stacks()
