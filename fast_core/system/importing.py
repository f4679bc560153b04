"""What is named as ``package.module:Class``: users' modules and classes, and our own."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from fast_core.errors import ConfigError
from fast_core.system.text import error_text


def user_module(name: str) -> ModuleType:
    """Import a module that a user names.

    One that lies in the current folder comes before what is installed under the same name, for
    folders called tests, examples or utils are installed by many packages. It alone: whatever it
    imports itself is found in the usual order, in which the current folder is the last, and so is
    what carries the name of a module of Python's.
    """
    first = name.partition(".")[0]
    if first not in sys.modules and first not in sys.stdlib_module_names:
        _import_from_here(first, name)
    return importlib.import_module(name)


def own(path: str) -> Any:
    """What ``module:name`` of FastLoop is; for modules too heavy for all who name them."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _import_from_here(first: str, name: str) -> None:
    """Import ``first``, the package of the module ``name``, if that lies in the current folder."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return
    path = here.joinpath(*name.split("."))
    if not (path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file()):
        return
    spec = PathFinder.find_spec(first, [str(here)])
    assert spec is not None, f"{path} is there"
    module = sys.modules[first] = module_from_spec(spec)
    if spec.loader is None:  # no __init__.py; fixed, or it would follow sys.path
        module.__path__ = list(spec.submodule_search_locations or ())
        return
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[first]
        raise


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
        module = user_module(module_name)
    except BaseException as error:  # a user's code: whatever it raises is the reason
        raise ConfigError(f"{key} {path!r} can't be imported: {import_fault(error)}") from error
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Name a class that stands there."
        raise ConfigError(
            f"{key} {path!r} can't be imported: module {module_name!r} has no {name!r}. {hint}"
        )
    found: object = getattr(module, name)
    return found


def import_fault(error: BaseException) -> str:
    """Why `user_module` failed, and what to do where that is not up to the module's author."""
    if not isinstance(error, ModuleNotFoundError):
        return f"{error_text(error)} ({_place(error)})."
    return (
        f"there is no module {error.name!r}. Modules are looked for as `python -m` does: in the "
        f"folder where fastloop is started ({os.getcwd()}), on PYTHONPATH, and among what is "
        "installed. Start it in the folder of the module, or put that on PYTHONPATH."
    )


def _place(error: BaseException) -> str:
    """Where a user's code raised."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}"
