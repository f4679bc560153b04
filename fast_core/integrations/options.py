"""The numbers that a user of `AsyncTrainer` gives: read, and refused by name."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Literal, cast

from fast_core.config.types import legacy_degree
from fast_core.errors import ConfigError
from fast_core.integrations.coordinator import AUTO

_LONGEST_S = 1e9  # sockets take no infinity, and not much more than this
_BACKENDS = ("inline", "thread", "process")
_MAY_BE_NONE = ("update_per_collect", "max_env_step", "max_train_iter")


def print_line(line: str) -> None:
    """Show a line of the debug log."""
    print(f"AsyncTrainer: {line}", file=sys.stderr, flush=True)


def read_degree(asked: int | str, buffer_size: int | None, batch_size: int | None) -> int:
    """The number that a degree stands for; `check_least` refuses wrong ones.

    Raises:
        ConfigError: The sizes are not those that "legacy-auto" needs, or nothing needs them.
    """
    if asked == "legacy-auto":
        if buffer_size is None or batch_size is None:
            raise ConfigError(
                "off_policy_degree 'legacy-auto' divides buffer_size by batch_size; got "
                f"{buffer_size!r} and {batch_size!r}. Give both."
            )
        check_least(("buffer_size", buffer_size, 1), ("batch_size", batch_size, 1))
        return legacy_degree(buffer_size, batch_size)
    if (buffer_size, batch_size) != (None, None):
        raise ConfigError(
            "buffer_size and batch_size are for off_policy_degree 'legacy-auto' alone; got "
            f"{buffer_size!r} and {batch_size!r} with degree {asked!r}. Leave them out."
        )
    return AUTO if asked == "auto" else cast("int", asked)


def read_written_degree(name: str, value: object) -> int | Literal["auto"]:
    """A degree as configurations and commands have it, where numbers may be text.

    Raises:
        ConfigError: It is none.
    """
    if value == "auto":
        return "auto"
    try:
        number = int(value) if isinstance(value, str | int) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or number < AUTO:
        raise ConfigError(
            f"{name} must be a whole number, at least 0, or -1 or 'auto', which let the run "
            f"choose; got {value!r}"
        )
    return number


def check_interval(weight_sync_interval: int, degree: int) -> None:
    """Refuse an interval with which rows would be older than the degree allows.

    Raises:
        ConfigError: It is longer than the degree and one; where the run chooses, none is.
    """
    if degree != AUTO and weight_sync_interval > degree + 1:
        raise ConfigError(
            f"weight_sync_interval must be at most off_policy_degree + 1; got "
            f"{weight_sync_interval} and degree {degree}: rows would be older than the degree "
            f"allows. Raise off_policy_degree to {weight_sync_interval - 1} at least."
        )


def read_fraction(name: str, ratio: float | str | Fraction | None) -> Fraction | None:
    """Take a number exactly, and None as it is.

    Raises:
        ConfigError: It is no number or not above 0.
    """
    if ratio is None:
        return None
    try:
        # A float means what it is written as, not the binary number next to it.
        exact = Fraction(str(ratio) if isinstance(ratio, float) else ratio)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"{name} must be a number or a fraction; got {ratio!r}") from error
    if exact <= 0:
        raise ConfigError(f"{name} must be above 0; got {ratio!r}")
    return exact


def read_ratio(
    replay_ratio: float | str | Fraction | None, update_per_collect: int | None
) -> Fraction | None:
    """Updates for each environment step, None where they are for each collection.

    Raises:
        ConfigError: It is no ratio, or both are said.
    """
    ratio = read_fraction("replay_ratio", replay_ratio)
    if update_per_collect is not None and ratio is not None:
        raise ConfigError(
            "update_per_collect and replay_ratio say the same in two ways; got "
            f"{update_per_collect!r} and {replay_ratio!r}. Give one of them."
        )
    return ratio


def check_backend(backend: str) -> None:
    """Refuse a backend that there is not.

    Raises:
        ConfigError: It is none.
    """
    if backend not in _BACKENDS:
        raise ConfigError(f"backend must be one of {', '.join(_BACKENDS)}; got {backend!r}")


def check_least(*checks: tuple[str, object, int]) -> None:
    """Refuse what is no whole number or less than its bound, by name.

    Raises:
        ConfigError: One of them is.
    """
    for name, value, bound in checks:
        if value is None and name in _MAY_BE_NONE:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < bound:
            raise ConfigError(f"{name} must be a whole number, at least {bound}; got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False; text such as "no" would count as True.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False; got {value!r}")


def check_limit(name: str, value: object) -> None:
    """Refuse what can't limit a wait.

    Raises:
        ConfigError: It is neither None nor a number of seconds that one can wait for.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < cast("float", value) <= _LONGEST_S):
        raise ConfigError(
            f"{name} must be above 0 and at most {_LONGEST_S:g} seconds, or None for no limit; "
            f"got {value!r}"
        )
