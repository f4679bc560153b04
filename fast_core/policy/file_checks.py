"""What a policy's file says, looked at before anything is made of it.

Its digest shows damage, not honesty: who writes a file writes the digest too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fast_core.algorithm.spec import Branch, EnvironmentSpec, SpaceSpec, Tree
from fast_core.config import EnvironmentConfig
from fast_core.errors import FastLoopError

MOST_BYTES = 256 << 20  # of one observation or action
MOST_CHOICES = MOST_BYTES >> 2  # each is a float32 where it is observed or judged
MOST_START = 1 << 62


def check_environment(environment: EnvironmentSpec) -> None:
    """Check that its spaces can be, so that rows of them can be made.

    Raises:
        ValueError: They can't; it says which and why.
    """
    observation, action = environment.observation, environment.action
    _check_space("the observation", observation)
    _check_space("the action", action)
    if action.kind == "composite":
        raise ValueError("the action is composite")
    frames = environment.frames
    if frames < 1 or (frames > 1 and observation.shape[:1] != (frames,)):
        raise ValueError(f"{frames} frames of an observation of shape {observation.shape}")
    names = [name for name, _ in observation.parts]
    if sorted(_leaves(environment.tree)) != sorted(names or [""]):
        raise ValueError("the observation is nested otherwise than its parts are named")
    mask = environment.action_mask
    if mask is not None and mask not in names:
        raise ValueError(f"the action mask {mask!r} is no part of the observation")
    choices = action.n if action.kind == "discrete" else sum(action.counts)
    if mask is not None and dict(observation.parts)[mask].size != choices:
        raise ValueError(f"the action mask {mask!r} is not of the action's {choices} choices")
    for text in (environment.id, *names):
        if not text.isprintable():
            raise ValueError(f"the name {text!r}")


def _leaves(tree: Tree) -> Iterator[str]:
    if not isinstance(tree, Branch):
        yield tree
        return
    keys, count = tree.keys, len(tree.parts)
    if len(set(keys)) != count or not (tree.named or keys == tuple(range(count))):
        raise ValueError(f"the keys {keys[:8]} of {count} parts of an observation")
    for part in tree.parts:
        yield from _leaves(part)


def _check_space(what: str, space: SpaceSpec) -> None:
    if space.kind == "composite":
        for name, part in space.parts:
            if part.kind == "composite":
                raise ValueError(f"part {name!r} of {what} is composite")
            _check_space(f"part {name!r} of {what}", part)
        names = {name for name, _ in space.parts}
        if len(names) < len(space.parts) or space != SpaceSpec.composite(space.parts):
            raise ValueError(f"{what} is not made of its parts")
        return
    _check_leaf(what, space)


def _check_leaf(what: str, space: SpaceSpec) -> None:
    try:
        dtype = np.dtype(space.dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"{what} has the dtype {space.dtype!r}") from error
    if dtype.kind not in "biuf" or space.parts:
        raise ValueError(f"{what} has the dtype {space.dtype!r}")
    if min(space.shape, default=0) < 0 or space.size * dtype.itemsize > MOST_BYTES:
        raise ValueError(f"{what} has the shape {space.shape}")
    if space.kind == "box":
        _check_bounds(what, space)
    elif space.kind == "discrete":
        if space.shape or not 0 < space.n <= MOST_CHOICES:
            raise ValueError(f"{what} has {space.n} choices in the shape {space.shape}")
    elif (
        len(space.counts) != space.size
        or min(space.counts, default=0) < 1
        or sum(space.counts) > MOST_CHOICES
    ):
        raise ValueError(f"{what} has the counts {space.counts[:8]} in the shape {space.shape}")
    firsts = (space.start, *space.starts)
    if len(space.starts) not in (0, space.size) or max(map(abs, firsts)) > MOST_START:
        raise ValueError(f"{what} has the first choices {firsts[:8]} in the shape {space.shape}")


def _check_bounds(what: str, space: SpaceSpec) -> None:
    for bound in (space.low, space.high):
        if len(bound) not in (1, space.size) or any(map(math.isnan, bound)):
            raise ValueError(f"{what} of shape {space.shape} has the bounds {bound[:8]}")
    low, high = space.bounds
    if (low > high).any():
        raise ValueError(f"{what} has lower bounds above its upper ones")


def check_code(
    what: str, named: Mapping[str, str], modules: Sequence[str], error: type[FastLoopError]
) -> None:
    """Refuse what a policy's file would have imported, unless it is among ``modules``.

    Args:
        what: Policy, for the message.
        named: Modules and classes by the key that names them.
        modules: What may be imported, with all that lies below.
        error: What is raised.
    """
    strange = {
        key: path
        for key, path in named.items()
        if not any(f"{path.partition(':')[0]}.".startswith(f"{each}.") for each in modules)
    }
    if strange:
        said = ", ".join(f"{key} {path!r}" for key, path in strange.items())
        asked = sorted({path.partition(":")[0] for path in strange.values()})
        raise error(
            f"{what} names code of its own: {said}. A file of others may name what you have, and "
            f"imports nothing by itself. If you know it, load it with modules={asked} (on the "
            f"command line {' '.join(f'--module {each}' for each in asked)})."
        )


def code_of_algorithm(algorithm: Mapping[str, object]) -> dict[str, str]:
    """The classes that an algorithm's configuration names: its own, and its networks'."""
    values = algorithm.items()
    return {f"algorithm.{key}": v for key, v in values if isinstance(v, str) and ":" in v}


def code_of_environment(environment: EnvironmentConfig) -> dict[str, str]:
    """The modules and classes that an environment's configuration names."""
    named = {f"environment.modules[{i}]": name for i, name in enumerate(environment.modules)}
    if ":" in environment.id:
        named["environment.id"] = environment.id
    return named | {
        f"environment.wrappers[{index}]": wrapper.name
        for index, wrapper in enumerate(environment.wrappers)
    }
