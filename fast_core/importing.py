"""A user's own classes, named in the configuration as ``package.module:Class``."""

from __future__ import annotations

import difflib
import importlib
import os
import traceback

from fast_core.errors import ConfigError
from fast_core.text import error_text


def named(path: str, key: str) -> object:
    """Import what ``path`` names.

    Args:
        path: ``package.module:Class``.
        key: Configuration key it stands at, for messages.

    Raises:
        ConfigError: There is no such module or name, or the module's own code raised.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{key} must look like 'package.module:Class'; got {path!r}.")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{key} {path!r} can't be imported: {_not_found(error)}") from error
    # a user's code: whatever it raises is the reason
    except BaseException as error:
        raise ConfigError(
            f"{key} {path!r} can't be imported: {error_text(error)} ({_place(error)})."
        ) from error
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Name a class that stands there."
        raise ConfigError(
            f"{key} {path!r} can't be imported: module {module_name!r} has no {name!r}. {hint}"
        )
    found: object = getattr(module, name)
    return found


def _not_found(error: ModuleNotFoundError) -> str:
    return (
        f"there is no module {error.name!r}. Modules are looked for as `python -m` does: among "
        f"what is installed, on PYTHONPATH, and in the folder where fastloop is started "
        f"({os.getcwd()}). Start it in the folder of the module, or put that on PYTHONPATH."
    )


def _place(error: BaseException) -> str:
    """Where a user's code raised."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}"
