"""The same for algorithms that learn from the policy's own samples."""

from __future__ import annotations

from typing import Any

from gops.trainer.off_serial_trainer import SerialTrainer


class OnSerialTrainer(SerialTrainer):
    def batch(self) -> Any:
        return self.take()
