"""The same on the device where a policy acts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.policy_inputs import PolicyInputs
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Staging, make_staging


class TorchInputs(PolicyInputs):
    """Brings observations to a device.

    Args:
        environment: What is observed.
        images: The parts of an observation that are no numbers to the networks.
        how: How observations are normalised; None where they are not.
        setup: Device and precision.
        staging: How observations get to the device; by default what the device needs.

    Attributes:
        device: Where that is.
        bf16: Whether networks compute in bfloat16.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        images: tuple[ImageShape, ...],
        how: Normalization | None,
        setup: PolicySetup,
        staging: Staging | None = None,
    ) -> None:
        super().__init__(environment, images, how)
        self.device, self.bf16 = torch.device(setup.device), setup.precision == "bf16"
        if self.bf16:
            warn_of_slow_bf16(self.device, "policy.precision")
        self._staging = staging or make_staging(self.device)
        self._buffers: dict[int, Tensor] = {}

    def rows(self, obs: Array) -> Rows:
        """Observations on the device, without their mask."""
        images = enumerate(self.encoder.images(obs))
        return Rows(
            self.tensor(self.numbers(obs)),
            tuple(self.tensor(image, 1 + index) for index, image in images),
        )

    def tensor(self, rows: Array, place: int = 0) -> Tensor:
        """Rows on the device; through a buffer, as they may view read-only shared memory.

        Args:
            rows: ``[B, ...]``.
            place: Which of several arrays of one call this is; each has a buffer of its own.
        """
        if self._staging is not None:
            return self._staging.upload(rows)
        buffer = self._buffers.get(place)
        if buffer is None or len(buffer) < len(rows):
            buffer = self._buffers[place] = torch.from_numpy(np.empty(rows.shape, rows.dtype))
        buffer = buffer[: len(rows)]
        buffer.numpy()[...] = rows
        return buffer
