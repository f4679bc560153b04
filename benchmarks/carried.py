"""What it costs to carry a host's objects to another process: through memory, or pickled.

``pickled`` is `cloudpickle` over a socket pair, as `AsyncTrainer` did it first; ``shared`` is what
it does now. A value goes there and a small answer comes back; the figure is the CPU time of both
processes, in ms for each value.
"""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import cloudpickle
import numpy as np

from benchmarks.measure import alternate
from fast_core.integrations.transport import Link, Parcel, Shelf


@dataclass
class Rollout:
    """As collectors have them."""

    obs: np.ndarray
    action: np.ndarray
    info: dict[str, Any]


def weights() -> dict[str, Any]:
    """108 tensors, 14 MB, as of LightZero's MuZero for CartPole."""
    import torch

    return {
        f"{k}.{n}": torch.ones(s) for k in range(54) for n, s in (("w", (256, 253)), ("b", 256))
    }


def rollout() -> Rollout:
    """10 MB in six arrays."""
    rows = [np.ones(65_536, np.float32) for _ in range(4)]
    return Rollout(np.ones((65_536, 34), np.float32), np.ones(65_536), {"rows": rows})


def small() -> dict[str, Any]:
    """A step."""
    return {"obs": np.ones(4, np.float32), "action": 1, "reward": 1.0, "info": {"TimeLimit": False}}


CASES: dict[str, tuple[Callable[[], Any], int]] = {
    "weights": (weights, 20),
    "rollout": (rollout, 20),
    "small": (small, 2_000),
}


class Pickled:
    """One end of the older way."""

    def __init__(self, end: socket.socket) -> None:
        self._stream = cast("BinaryIO", end.makefile("rwb"))

    def send(self, value: object) -> None:
        """Send it."""
        self._stream.write(cloudpickle.dumps(value))
        self._stream.flush()

    def receive(self) -> Any:
        """Wait for what the other end sends."""
        return pickle.load(self._stream)


class Shared:
    """One end of the present way."""

    def __init__(self, end: socket.socket) -> None:
        self._link = Link(end)
        self.shelf = Shelf(plain=True)  # as the process of a collector has it
        self._held: Parcel | None = None

    def send(self, value: object) -> None:
        """Send it."""
        self._held = None
        self._held = self.shelf.put(value)
        self._link.send(None, self._held)

    def receive(self) -> Any:
        """Wait for what the other end sends."""
        _, incoming = self._link.receive()
        assert incoming is not None
        return incoming.read()


WAYS: dict[str, type[Pickled | Shared]] = {"pickled": Pickled, "shared": Shared}


class Peer:
    """Another process that takes values and answers."""

    def __init__(self) -> None:
        pairs = {name: socket.socketpair() for name in WAYS}
        theirs = [pair[1].fileno() for pair in pairs.values()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.carried", *map(str, theirs)],
            pass_fds=theirs,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ways = {name: WAYS[name](pair[0]) for name, pair in pairs.items()}

    def carry_ms(self, way: str, value: object, times: int) -> float:
        """CPU time of both for one value."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        end = self._ways[way]
        print(way, times, file=stdin, flush=True)
        began_s = time.process_time()
        for _ in range(times):
            end.send(value)
            end.receive()
        spent_s = time.process_time() - began_s
        return (spent_s + float(stdout.readline())) / times * 1e3

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def measure(rounds: int) -> dict[str, float]:
    """Milliseconds for each case and way, in one alternated run."""
    peer, found = Peer(), dict[str, float]()
    for case, (make, times) in CASES.items():
        value = make()
        for way in WAYS:
            peer.carry_ms(way, value, 2)

        def carry(way: str, value: object = value, times: int = times) -> float:
            return peer.carry_ms(way, value, times)

        turns = {f"{case}_{way}_ms": lambda way=way, carry=carry: carry(way) for way in WAYS}
        found |= alternate(rounds, **turns)
    peer.close()
    return found


def main() -> None:
    """Be the other process."""
    ends = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    ways = {name: WAYS[name](end) for name, end in zip(WAYS, ends, strict=True)}
    for line in sys.stdin:
        way, times = line.split()
        began_s = time.process_time()
        for _ in range(int(times)):
            ways[way].receive()
            ways[way].send(None)
        print(time.process_time() - began_s, flush=True)


if __name__ == "__main__":
    main()
