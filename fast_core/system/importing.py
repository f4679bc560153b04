"""What is named as ``package.module:Class``: users' modules and classes, and our own."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from fast_core.errors import ConfigError
from fast_core.system.text import error_text

_CLASSES = 8  # of a module, that a message names


class NamedAsFile(ImportError):
    """What should be a module's name is a file's."""

    def __init__(self, name: str) -> None:
        path = Path(name)
        outside = path.is_absolute() or ".." in path.parts
        meant = path.stem if outside else ".".join([*path.parent.parts, path.stem])
        where = ", with fastloop started in its folder" if outside else ""
        super().__init__(f"a module is named as in an import, {meant!r}, not as a file{where}")


def user_module(name: str) -> ModuleType:
    """Import a module that a user names.

    One that lies in the current folder comes before what is installed under the same name, for
    folders called tests, examples or utils are installed by many packages. It alone: whatever it
    imports itself is found in the usual order, in which the current folder is the last, and so is
    what carries the name of a module of Python's.

    Raises:
        NamedAsFile: It is the path of a file, or of a folder.
    """
    if os.sep in name or name.endswith(".py"):
        raise NamedAsFile(name)
    first = name.partition(".")[0]
    if first not in sys.modules and first not in sys.stdlib_module_names:
        _import_from_here(first, name)
    return importlib.import_module(name)


def began_in() -> list[str]:
    """The folders in which modules are found besides what is installed.

    That is the current one, and what else is on `sys.path`: a script's, those of PYTHONPATH, and
    what a user's code has put there. What is no line of UTF-8 is left out.
    """
    with_python = [sysconfig.get_path("stdlib"), str(Path(__file__).parents[2])]
    found = [os.path.abspath(each) for each in sys.path if each and os.path.isdir(each)]
    found = [each for each in found if not _is_installed(each, with_python)]
    with contextlib.suppress(OSError):  # it was removed
        found.insert(0, os.getcwd())
    return [each for each in dict.fromkeys(found) if _is_a_line(each)]


def _is_a_line(text: str) -> bool:
    return "\n" not in text and text.encode(errors="ignore").decode() == text


def _is_installed(folder: str, with_python: list[str]) -> bool:
    parts = Path(folder).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return any(folder == each or folder.startswith(each + os.sep) for each in with_python)


def look_in_too(folders: Iterable[str]) -> None:
    """Let modules be found in these folders too, where they are nowhere else.

    What is no absolute path is passed over, since it was not written by `began_in`.
    """
    whole = [each for each in folders if os.path.isabs(each) and os.path.isdir(each)]
    sys.path += [each for each in dict.fromkeys(whole) if each not in sys.path]


def hidden_by_current_folder(module: str, folders: Iterable[str]) -> str:
    """The one of ``folders`` whose ``module`` `user_module` passes over; empty if there is none.

    The current folder has another of that name, which comes first.
    """
    first = module.partition(".")[0]
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return ""
    if first in sys.stdlib_module_names or not _lies_in(here, module):
        return ""
    for each in folders:
        if os.path.isabs(each) and _lies_in(each, module):
            return "" if os.path.realpath(each) == os.path.realpath(here) else each
    return ""


def _lies_in(folder: str, module: str) -> bool:
    # Not `Path.is_file`, which raises where a folder can't be looked into.
    path = os.path.join(folder, *module.split("."))
    return os.path.isfile(f"{path}.py") or os.path.isfile(os.path.join(path, "__init__.py"))


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
    if not _lies_in(str(here), name):
        return
    spec = PathFinder.find_spec(first, [str(here)])
    assert spec is not None, f"{name} lies in {here}"
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
        raise ConfigError(
            f"{key} must look like 'package.module:Class'; got {path!r}.{colon_hint(path)}"
        )
    try:
        module = user_module(module_name)
    except BaseException as error:  # a user's code: whatever it raises is the reason
        raise ConfigError(f"{key} {path!r} can't be imported: {import_fault(error)}") from error
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else classes_hint(module)
        if module_name == "__main__":
            hint = (
                f"A node has a main program of its own: put {name} into a file beside yours, "
                f"own.py for instance, and name 'own:{name}'."
            )
        raise ConfigError(
            f"{key} {path!r} can't be imported: module {module_name!r} has no {name!r}. {hint}"
        )
    found: object = getattr(module, name)
    return found


def colon_hint(path: str) -> str:
    """What was meant where ``path`` is ``package.module.Class``, after a space; else nothing."""
    module, _, name = path.rpartition(".")
    if not name.isidentifier() or not all(map(str.isidentifier, module.split("."))):
        return ""
    return f" Did you mean '{module}:{name}'?"


def classes_hint(module: ModuleType, kind: type = object) -> str:
    """Which classes of a ``kind`` are made in a module."""
    made = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, kind)
        and value.__module__ == module.__name__
    ]
    if not made:
        return "Name a class that stands there."
    more = f" and {len(made) - _CLASSES} more" if len(made) > _CLASSES else ""
    return f"It has {', '.join(map(repr, made[:_CLASSES]))}{more}."


def import_fault(error: BaseException) -> str:
    """Why `user_module` failed, and what to do where that is not up to the module's author."""
    if isinstance(error, NamedAsFile):
        return f"{error}."
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
