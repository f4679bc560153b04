"""`fastloop lightzero`: a LightZero configuration, unchanged, trained asynchronously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fast_core.clients.lightzero.entry import ENTRIES, install
from fast_core.clients.lightzero.library import entry_of
from fast_core.errors import ConfigError
from fast_core.integrations.scripts import as_main, run_as_main, status_of


def run_config(config: Path, arguments: Sequence[str], **options: Any) -> int:
    """Run a configuration as Python would, with the entries of here.

    One that calls no entry, but has ``main_config`` and ``create_config``, is trained by
    `train_muzero`, or `train_unizero` for policies of its kind, with the ``max_env_step`` that it
    has, if any.

    Args:
        config: The file.
        arguments: What it gets as its own.
        **options: As of `install`.

    Returns:
        The status that it ends with.

    Raises:
        ConfigError: There is no such file, it has no configuration, or LightZero can't be imported.
    """
    if not config.is_file():
        raise ConfigError(
            f"there is no LightZero configuration {str(config)!r} in {Path.cwd()}. Give the path "
            "of a Python file, such as one of zoo/classic_control/cartpole/config."
        )
    with as_main(config, arguments):
        called = install(**options)

        def work() -> None:
            found = run_as_main(config)
            if not called:
                _train(config, found, options)

        return status_of(work)


def _train(config: Path, found: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    missing = [name for name in ("main_config", "create_config") if name not in found]
    if missing:
        raise ConfigError(
            f"{str(config)!r} calls no entry of LightZero's and has no {' and no '.join(missing)}. "
            "A configuration has both, as EasyDict."
        )
    both = [found["main_config"], found["create_config"]]
    kind = getattr(getattr(both[1], "policy", None), "type", "")
    ENTRIES[entry_of(kind)](both, max_env_step=found.get("max_env_step"), **options)
