"""`fastloop lightzero`: a LightZero configuration, unchanged, trained asynchronously."""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast_core.errors import ConfigError
from fast_core.integrations.lightzero.entry import install, train_muzero

_INTERRUPTED = 130  # 128 + SIGINT, what shells expect after Ctrl-C


def run_config(config: Path, arguments: Sequence[str], **options: Any) -> int:
    """Run a configuration as Python would, with the entries of here.

    One that calls no entry, but has ``main_config`` and ``create_config``, is trained by
    `train_muzero` with the ``max_env_step`` that it has, if any.

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
    with _as_main(config, arguments):
        called = install(**options)
        try:
            found = runpy.run_path(str(config), run_name="__main__")
            if not called:
                _train(config, found, options)
        except KeyboardInterrupt:
            print("fastloop: interrupted", file=sys.stderr)
            return _INTERRUPTED
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            print(end.code, file=sys.stderr)
            return 1
    return 0


def _train(config: Path, found: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    missing = [name for name in ("main_config", "create_config") if name not in found]
    if missing:
        raise ConfigError(
            f"{str(config)!r} calls no entry of LightZero's and has no {' and no '.join(missing)}. "
            "A configuration has both, as EasyDict."
        )
    both = [found["main_config"], found["create_config"]]
    train_muzero(both, max_env_step=found.get("max_env_step"), **options)


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Arguments, search path and Ctrl-C as the script expects them."""
    before = sys.argv, [*sys.path], signal.getsignal(signal.SIGINT)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[:2]
        signal.signal(signal.SIGINT, before[2])
