"""A viewer of one's own: `fastloop launch examples/pictures.yaml`.

`Pictures` saves what the environments look like now and then as PNG files in the run directory. It
does so in the way of the page (`fast_core/dashboard/node.py`), which is such a node too: it says
in shared memory of its own what it wants to see, and reads the frames that those publish who step
the environments.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from fast_core.memory import Structure, Trace
from fast_core.messages import Command, Ready
from fast_core.nodes.node import Node, NodeState
from fast_core.run.plan import RunPlan
from fast_core.run.structures import frame_layout, watching
from fast_core.run.tiles import tiles
from fast_core.run.watching import WATCHING, Watching


class Pictures(Node):
    """Saves a picture of every tile, again and again.

    Settings: ``every_s``, the seconds between two of one tile.
    """

    essential = False  # the run goes on without it
    emits = frozenset({Ready})
    reads = frozenset({"frames"})
    writes = frozenset({WATCHING})

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        """The words in which this viewer says what it wants to see."""
        yield watching(plan)._replace(name=f"{WATCHING}/{name}")

    def setup(self) -> None:
        """Attach to its words, and to the boards of all tiles."""
        from PIL import Image  # here, because the launcher imports this module too

        plan, memory = self.context.plan, self.context.memory
        self._image = Image
        self._watching = Watching(memory.at(Trace, f"{WATCHING}/{self.context.name}").words)
        self._layout = frame_layout(plan)
        self._room = bytearray(self._layout.nbytes)
        self._boards = {tile.number: memory.frames(tile.number) for tile in tiles(plan.config)}
        self._newest = dict.fromkeys(self._boards, -1)
        every_ns = round(1e9 * float(self.context.settings.get("every_s", 10)))
        self._wanted = dict.fromkeys(self._boards, every_ns)
        self._folder = Path(plan.run_directory) / "pictures"
        self._folder.mkdir(exist_ok=True)

    def handle(self, command: Command) -> None:
        """Nothing comes: it consumes no message."""

    def work(self) -> bool:
        """Say that it still watches, and save what is new; called once a second at least."""
        self._watching.want(self._wanted, time.monotonic_ns())
        for tile, board in self._boards.items():
            number = board.read_into(self._room, newer_than=self._newest[tile])
            if number > self._newest[tile]:
                self._newest[tile] = number
                with self.state(NodeState.WRITING, f"saving a picture of tile {tile}"):
                    self._save(tile)
        return False

    def _save(self, tile: int) -> None:
        frame = self._layout.unpack(bytes(self._room))
        if frame.picture is None:
            self.context.log.warning("tile %d: %s", tile, frame.note)
            return
        name = f"tile{tile}-episode{frame.episode}-step{frame.step}.png"
        self._image.fromarray(frame.picture).save(self._folder / name)
