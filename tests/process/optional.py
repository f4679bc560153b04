"""Nodes of the user's that the run can do without, and what becomes of them."""

from __future__ import annotations

import os
import signal
import time

from fast_core.messages import Command, Ready
from fast_core.nodes.node import Node


class Spare(Node):
    """Does what its settings say: ``raises`` in setup, ``hangs`` there, or ``dies`` when it works.

    With ``once`` it does so in its first life alone.
    """

    emits = frozenset({Ready})
    essential = False

    def setup(self) -> None:
        """Fail."""
        settings = self.context.settings
        self._fault = settings["fault"]
        if settings.get("once") and self.context.life > 1:
            self._fault = ""
        if self._fault == "raises":
            raise RuntimeError("no screen")
        if self._fault == "hangs":
            time.sleep(3600)

    def handle(self, command: Command) -> None:
        """Nothing comes."""

    def work(self) -> bool:
        """Fail."""
        if self._fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "stops":
            raise RuntimeError("no more")
        return False
