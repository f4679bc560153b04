"""What is exported of policies that learn from replay."""

from __future__ import annotations

from torch import nn

from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets_torch.policy_module import ActionMode, PolicyModule
from fast_core.spec import EnvironmentSpec


def make_module(
    environment: EnvironmentSpec,
    images: tuple[ImageShape, ...],
    network: nn.Module,
    *,
    first: int,
    scaling: Scaling | None,
) -> PolicyModule:
    """A network with what policies do around it.

    Args:
        environment: What the policy acts in.
        images: The parts of an observation that are no numbers to the network.
        network: Maps `Rows` to what policies choose by: means, or values of choices.
        first: Which output is the value of the first choice.
        scaling: How numbers are normalised, None where they are not.
    """
    action = environment.action
    if action.kind == "box":
        mode = ActionMode(action.size, squashed=True)
    else:
        mode = ActionMode(action.n, first=first, choices=(action.n,))
    return PolicyModule(environment, images, network, mode, stretch=True, scaling=scaling)
