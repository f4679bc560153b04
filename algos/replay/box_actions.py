"""Actions of replay algorithms in boxes: stored within [-1, 1], mapped to the box's bounds.

Whatever is learned is learned of stored actions, densities and entropies too, so that it does not
depend on the unit in which an environment takes its actions.
"""

from __future__ import annotations

import math

import numpy as np

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.networks import F32
from fast_core.errors import ConfigError

UNIFORM = np.float32(math.sqrt(2.0 / math.pi))


class BoxActions:
    """The map from [-1, 1] to a box, whose bounds need not be symmetric.

    Args:
        environment: Whose action space, which `check_box` has accepted.
    """

    def __init__(self, environment: EnvironmentSpec) -> None:
        space = environment.action
        self.size = space.size
        self.shape = space.shape
        self.to_environment = ActionMap(space, stretch=True)

    def uniform(self, normal: F32) -> F32:
        """Actions spread evenly over [-1, 1] from standard normal numbers of any shape.

        The normal distribution function to 3e-4. Source: Page 1977, approximations to the
        cumulative normal function.
        """
        cubic = np.square(normal)
        cubic *= np.float32(0.044715)
        cubic += np.float32(1)
        cubic *= normal
        cubic *= UNIFORM
        action: F32 = np.tanh(cubic)
        return action

    @property
    def uniform_log_prob(self) -> float:
        """Log-density of `uniform`."""
        return -self.size * math.log(2.0)


def check_box(environment: EnvironmentSpec, name: str) -> None:
    """Refuse actions that are not a box with finite bounds; integers are choices (`action_spec`).

    Raises:
        ConfigError: They are not.
    """
    action = environment.action
    if action.kind != "box":
        raise ConfigError(
            f"algorithm.name {name!r} takes boxes of floating-point actions; {environment.id!r} "
            f"has choices ({action.kind}). Use dqn for one choice per step, ppo for anything else."
        )
    low, high = action.bounds
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ConfigError(
            f"algorithm.name {name!r} needs actions with finite bounds: it explores all of the "
            f"box; {environment.id!r} has {low.ravel().tolist()} to {high.ravel().tolist()}. "
            "Use ppo, or say which part is used: environment.wrappers: [{name: "
            "'fast_core.envs.wrappers:BoundAction', kwargs: {low: -1, high: 1}}]."
        )
