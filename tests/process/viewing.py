"""A viewer of the user's own: a node that says what it wants to see, and keeps what it saw.

Also environments whose drawing goes wrong, each in a way of its own, registered as
`fastloop/Drawn-v0`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fast_core.memory import Structure, Trace
from fast_core.messages import Command, Ready
from fast_core.nodes.node import Node
from fast_core.run.frame import Frame
from fast_core.run.plan import RunPlan
from fast_core.run.structures import frame_layout, watching
from fast_core.run.tiles import tiles
from fast_core.run.watching import WATCHING, Watching

EVERY_S = 0.02


FAULTS = (
    "",
    "draws random numbers",
    "raises",
    "sleeps",
    "hangs",
    "changes its observation",
    "returns None",
    "returns floats",
)


class Viewer(Node):
    """Watches every tile and writes a line of ``seen.jsonl`` for each frame.

    Settings: ``fps``, frames a second of each tile; 0: it watches none.
    """

    emits = frozenset({Ready})
    reads = frozenset({"frames"})
    writes = frozenset({WATCHING})

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        """What it says it wants."""
        yield watching(plan)

    def setup(self) -> None:
        """Attach to everything."""
        plan, memory = self.context.plan, self.context.memory
        self._watching = Watching(memory.at(Trace, WATCHING).words)
        self._layout = frame_layout(plan)
        self._boards = {tile.number: memory.frames(tile.number) for tile in tiles(plan.config)}
        self._seen = dict.fromkeys(self._boards, -1)
        self._file = (Path(plan.run_directory) / "seen.jsonl").open("w")
        fps = self.context.settings.get("fps", 20)
        self._wanted = dict.fromkeys(self._boards, round(1e9 / fps)) if fps else {}
        self._next_s = 0.0

    def handle(self, command: Command) -> None:
        """Nothing comes."""

    def work(self) -> bool:
        """Say that it still watches, and take what is new."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            time.sleep(min(EVERY_S, self._next_s - now_s))
        self._next_s = time.monotonic() + EVERY_S
        self._watching.want(self._wanted, time.monotonic_ns())
        for tile, board in self._boards.items():
            data = bytearray(self._layout.nbytes)
            number = board.read_into(data, newer_than=self._seen[tile])
            if number > self._seen[tile]:
                self._seen[tile] = number
                self._keep(tile, number, self._layout.unpack(bytes(data)))
        return bool(self._wanted)

    def _keep(self, tile: int, number: int, frame: Frame) -> None:
        picture = None if frame.picture is None else [*frame.picture.shape, frame.picture.mean()]
        rows = {
            "tile": tile,
            "number": number,
            **{name: getattr(frame, name) for name in Frame._fields[:11]},
            "picture": picture,
            "obs": np.asarray(frame.obs, np.float64).ravel()[:8].tolist(),
            "action": np.asarray(frame.action, np.float64).ravel().tolist(),
            "state": frame.state.tolist(),
        }
        self._file.write(json.dumps(rows) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        if hasattr(self, "_file"):
            self._file.close()


class Drawn(gymnasium.Env[np.ndarray, np.int64]):
    """Observes random numbers; its `render` does what `FAULTS` has for its number in the run."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Discrete(2)

    def __init__(
        self,
        number: int = 0,
        shared: bool = True,
        hangs: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode, self._fault = render_mode, FAULTS[number % len(FAULTS)]
        self._step = self._drawn = 0
        self._may_hang, self._hangs = hangs, False
        self._shared = shared  # whether it observes what it draws from generators of the process
        self._obs = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._step = 0
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        return self._observe(), {}

    def step(self, action: np.int64) -> Any:
        self._step += 1
        ends = self._step == 20
        return self._observe(), float(self._obs[0] > 0.5) * float(action), ends, False, {}

    def _observe(self) -> np.ndarray:
        self._obs[:] = self.np_random.random()
        if self._shared:
            self._obs[1:] = random.random(), np.random.random()  # noqa: NPY002
        return self._obs

    def close(self) -> None:
        while self._hangs:
            time.sleep(1)

    def render(self) -> Any:
        self._drawn += 1
        match self._fault:
            case "draws random numbers":
                self.np_random.random()
                random.random()
                np.random.random()  # noqa: NPY002
            case "raises":
                raise RuntimeError("no window")
            case "sleeps":
                time.sleep(0.05)
            case "hangs" if self._drawn > 1 and self._may_hang:
                self._hangs = True
                self.np_random.random()
                random.random()
                time.sleep(3600)
            case "changes its observation":
                self._obs[:] = 7
            case "returns None":
                return None
            case "returns floats":
                return np.zeros((40, 60, 3))
        return np.full((40, 60, 3), self._step, np.uint8)


gymnasium.register("fastloop/Drawn-v0", Drawn)
