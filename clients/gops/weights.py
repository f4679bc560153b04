"""Weights on their way to another process: one array for each type, instead of many tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

Gops = Any  # an object of GOPS's, or of a user's in its place
Flat = dict[str, np.ndarray[Any, Any]]


class Tensors:
    """The parameters and buffers of networks, or of one part of them."""

    def __init__(self, networks: Gops, part: str) -> None:
        """Of the submodule ``part``; of all if that is empty."""
        self._module: torch.nn.Module = getattr(networks, part) if part else networks
        self._loaded: dict[str, list[torch.Tensor]] | None = None

    def flat(self) -> Flat:
        """A copy that nobody changes: an array [N] for each type, in the order of names."""
        return {
            kind: torch.cat([each.detach().reshape(-1) for each in tensors]).cpu().numpy()
            for kind, tensors in self._groups().items()
        }

    def load(self, flat: Mapping[str, Any]) -> None:
        """Take over what `flat` gave elsewhere; the tensors stay where they are."""
        if self._loaded is None:
            self._loaded = self._groups()
        for kind, tensors in self._loaded.items():
            given, start = torch.from_numpy(flat[kind]), 0
            for tensor in tensors:
                end = start + tensor.numel()
                tensor.copy_(given[start:end].view_as(tensor))
                start = end

    def _groups(self) -> dict[str, list[torch.Tensor]]:
        groups: dict[str, list[torch.Tensor]] = {}
        for tensor in self._module.state_dict().values():
            groups.setdefault(str(tensor.dtype), []).append(tensor)
        return groups


def acting_part(networks: Gops, sampler_class: object) -> str:
    """What a sampler acts with: "policy" where that is known to be enough, else "" for all.

    GOPS's own `OffSampler` asks networks for actions alone, which GOPS's own containers draw from
    their policy; an algorithm or a sampler of the user's may look at anything.
    """
    home = str(getattr(sampler_class, "__module__", ""))
    known = home == "gops.trainer.sampler.off_sampler" and type(networks).__module__.startswith(
        "gops.algorithm."
    )
    has = isinstance(getattr(networks, "policy", None), torch.nn.Module)
    return "policy" if known and has else ""
