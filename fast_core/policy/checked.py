"""What a policy must return; who strays from it is named with what was got.

Most faults of an algorithm of one's own would else show far away, or not at all: one row too few
is broadcast, and an action of another dtype steps the environment a little differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fast_core.algorithm import ActionOutput, Array, Blueprint, Policy, PolicySetup
from fast_core.algorithm.spec import (
    Column,
    EnvironmentSpec,
    FieldSpec,
    SpaceSpec,
    as_dtype,
    written_by,
)
from fast_core.errors import ConfigError


def make_policy(
    blueprint: Blueprint, environment: EnvironmentSpec, setup: PolicySetup
) -> CheckedPolicy:
    """Build what acts in ``environment``; it has no parameters yet.

    Raises:
        ConfigError: The blueprint made something else.
    """
    policy = blueprint.make_policy(environment, setup)
    check_methods(policy, "make_policy", ("load", "act", "environment_action"))
    return CheckedPolicy(
        policy,
        blueprint.action_field(environment),
        environment.action,
        blueprint.state_size(environment),
        written_by("policy", blueprint.columns(environment)),
    )


class CheckedPolicy:
    """A policy whose actions have the shapes that rows need and the dtypes that are declared.

    Attributes:
        policy: What it checks.
    """

    def __init__(
        self,
        policy: Policy,
        stored: FieldSpec,
        taken: SpaceSpec,
        state_size: int,
        columns: Sequence[Column] = (),
    ) -> None:
        """``stored`` is a row of the action column, ``taken`` what the environment takes.

        ``columns`` are those that the policy writes besides.
        """
        self.policy = policy
        self._stored = stored.shape, as_dtype(stored.dtype)
        self._taken = taken.shape, taken.row_dtype
        self._state_size = state_size
        self._columns = {each.name: (each.shape, as_dtype(each.dtype)) for each in columns}
        # A right answer of the usual size is recognised by these in a third of the time.
        self._rows = -1
        self._action_shape: tuple[int, ...] = ()
        self._taken_shape: tuple[int, ...] = ()

    def load(self, parameters: Sequence[Array]) -> None:
        """See `Policy.load`."""
        self.policy.load(parameters)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """See `Policy.act`.

        Raises:
            ConfigError: It returned something else, or other rows than those of ``obs``.
        """
        output = self.policy.act(obs, noise=noise, explore=explore, state=state)
        rows = len(obs)
        if rows != self._rows:
            self._rows = rows
            self._action_shape = (rows, *self._stored[0])
            self._taken_shape = (rows, *self._taken[0])
        if (
            type(output) is ActionOutput
            and _is(output[0], self._action_shape, self._stored[1])
            and type(output[1]) is np.ndarray
            and output[1].shape == (rows,)
            and not self._state_size
            and not output.extra
            and not self._columns
        ):
            return output
        return self._checked(output, rows)

    def _checked(self, output: ActionOutput, rows: int) -> ActionOutput:
        if not isinstance(output, ActionOutput):
            raise ConfigError(
                "act of the policy must return a fast_core.algorithm.ActionOutput; got "
                f"{form(output)}"
            )
        action, log_prob, remembered = output
        action = _fitting(action, rows, *self._stored, "act of the policy must return `action`")
        if np.shape(log_prob) != (rows,):
            raise ConfigError(
                "act of the policy must return `behaviour_log_prob` of shape "
                f"{(rows,)}, one number for each row; got {form(log_prob)}"
            )
        expected = (rows, self._state_size)
        if self._state_size and (remembered is None or np.shape(remembered) != expected):
            raise ConfigError(
                f"act of the policy must return `state` of shape {expected}, as "
                f"state_size of the algorithm says; got {form(remembered)}"
            )
        if output.extra or self._columns:
            return output._replace(action=action, extra=self._fitting_columns(output.extra, rows))
        return output if action is output.action else output._replace(action=action)

    def _fitting_columns(self, extra: object, rows: int) -> dict[str, Array]:
        """The declared columns out of ``extra``, if there are no others."""
        if not isinstance(extra, Mapping) or extra.keys() != self._columns.keys():
            raise ConfigError(
                "act of the policy must return `extra` with the columns that policies write, as "
                f"columns() of the algorithm says: {', '.join(self._columns) or 'none'}; got "
                f"{names(extra)}"
            )
        what = "act of the policy must return `extra[{!r}]`"
        return {
            name: _fitting(extra[name], rows, *column, what.format(name))
            for name, column in self._columns.items()
        }

    def environment_action(self, action: Array) -> Array:
        """See `Policy.environment_action`.

        Raises:
            ConfigError: It returned what the action space does not take.
        """
        taken = self.policy.environment_action(action)
        if _is(taken, self._taken_shape, self._taken[1]) and len(action) == self._rows:
            return taken
        what = "environment_action of the policy must return actions"
        return _fitting(taken, len(action), *self._taken, what)


def _is(array: object, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    return type(array) is np.ndarray and array.dtype is dtype and array.shape == shape


def _fitting(
    array: object, rows: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], what: str
) -> Array:
    """``array`` in ``dtype``, if it is ``[rows, *shape]`` and nothing of it is lost."""
    if isinstance(array, np.ndarray) and array.shape == (rows, *shape):
        if array.dtype == dtype:
            return array
        if array.dtype.kind in "biu" or (array.dtype.kind == dtype.kind == "f"):
            return array.astype(dtype)
    raise ConfigError(f"{what} of shape {(rows, *shape)} and dtype {dtype}; got {form(array)}")


def check_methods(part: object, maker: str, methods: Sequence[str]) -> None:
    """Check what ``maker`` of an algorithm made.

    Raises:
        ConfigError: It lacks one of ``methods``.
    """
    lacking = [name for name in methods if not callable(getattr(part, name, None))]
    if lacking:
        raise ConfigError(
            f"{maker} of the algorithm must return an object with {', '.join(methods)}; got "
            f"{form(part)}, which lacks {', '.join(lacking)}"
        )


def names(said: object) -> str:
    """What ``said`` has columns for, in words."""
    return ", ".join(map(str, said)) or "none" if isinstance(said, Mapping) else form(said)


def form(value: object) -> str:
    """What ``value`` is, without its contents where those are long."""
    if isinstance(value, np.ndarray | np.generic):
        return f"shape {value.shape} of {value.dtype}"
    text = repr(value)
    return f"a {type(value).__name__}" if len(text) > 60 else f"{text} ({type(value).__name__})"
