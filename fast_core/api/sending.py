"""How an environment that is a Python object reaches processes, and commands of later.

By name where it has one that they can import, else as code in a file of the run's directory.
"""

from __future__ import annotations

import functools
import inspect
import io
import linecache
import os
import re
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import cast

import cloudpickle

from fast_core.envs.pickled import code_with_source
from fast_core.errors import ConfigError
from fast_core.system.text import error_text

Maker = Callable[..., object]
_DEEP = 6
_UNSAFE = re.compile(r"[^\w.-]+")


def name_of(maker: Maker) -> str | None:
    """``module:name`` if another process finds exactly ``maker`` there; None if not."""
    module, name = getattr(maker, "__module__", None), getattr(maker, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        return None
    if getattr(sys.modules.get(module), name, None) is not maker or not _importable(module):
        return None
    return f"{module}:{name}"


def label_of(maker: Maker) -> str:
    """A name for people, fit for an environment's id."""
    inner = _inner(maker)
    name = getattr(inner, "__name__", type(inner).__name__)
    return _UNSAFE.sub("", name) or "environment"


def is_object(value: object) -> bool:
    """Whether ``value`` stands for an environment as a Python object, not as text or keys."""
    return callable(value) or _is_made(value)


def checked_maker(value: object) -> Maker:
    """What makes environments.

    Raises:
        ConfigError: It is an environment that is made already.
    """
    if not _is_made(value):
        return cast("Maker", value)
    spec = getattr(value, "spec", None)
    id_hint = f", or the id {spec.id!r}" if spec is not None else ""
    raise ConfigError(
        "environment must be what makes environments, because a run steps many of them; got one "
        f"that is made, {_kind(getattr(value, 'unwrapped', value))}. Give its class, or a function "
        f"that makes one{id_hint}."
    )


def _is_made(value: object) -> bool:
    """Whether it is an environment; without Gymnasium, which takes 0.1 s to import."""
    made = hasattr(value, "step") and hasattr(value, "reset")
    return made and not isinstance(value, type | types.FunctionType)


def pickled(maker: Maker) -> bytes:
    """``maker`` as code, what it refers to in modules that nobody can import included.

    Raises:
        ConfigError: Something in it can't be sent; names it.
    """
    try:
        return _dump(maker)
    except Exception as error:  # whatever a user's object raises when it is pickled
        where = " -> ".join(_culprit(maker))
        raise ConfigError(
            f"environment {label_of(maker)!r} can't be sent to the processes that step it: "
            f"{where} can't be pickled ({error_text(error)}). Make it where the environment is "
            "made, inside the function or __init__, or move the class into a module of its own "
            "and import it from there."
        ) from error


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps where code stands, and the text of a notebook's cell: tracebacks show it."""

    dispatch_table = ChainMap(
        {types.CodeType: lambda code: _reduced(code)}, cloudpickle.Pickler.dispatch_table
    )


def _reduced(code: types.CodeType) -> tuple[Callable[..., object], tuple[object, ...]]:
    _, parts = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return code_with_source, (code.co_filename, _source(code.co_filename), *parts)


@functools.lru_cache(maxsize=32)
def _source(filename: str) -> str:  # cached, so that it is one object and pickled once
    return "" if os.path.exists(filename) else "".join(linecache.getlines(filename))


def _dump(value: object) -> bytes:
    module = sys.modules.get(getattr(_inner(value), "__module__", None) or "")
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    if module is None or module.__name__ in by_value or _importable(module.__name__):
        return _pickle(value)
    cloudpickle.register_pickle_by_value(module)
    try:
        return _pickle(value)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _pickle(value: object) -> bytes:
    _source.cache_clear()
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _inner(value: object) -> object:
    while isinstance(value, functools.partial):
        value = value.func
    return value


def _importable(name: str) -> bool:
    """Whether a process with this one's `sys.path` would import the same module."""
    first = name.partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    found = None
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        found = None if find is None else find(first, None)
        if found is not None:
            break
    if found is None or file is None:
        return found is not None and found.origin in ("built-in", "frozen")
    folders = [os.path.dirname(found.origin)] if found.origin else []
    places = [*(found.submodule_search_locations or ()), *folders]
    return any(os.path.realpath(file).startswith(os.path.realpath(p) + os.sep) for p in places)


# --- what can't be sent --------------------------------------------------------------------------


def _culprit(value: object, deep: int = 0) -> list[str]:
    """The way to what can't be pickled, from the outside to the inside, in words."""
    for words, part in _parts(value) if deep < _DEEP else ():
        if not _can_be_sent(part):
            return [words, *_culprit(part, deep + 1)]
    return [] if deep else ["it"]


def _can_be_sent(value: object) -> bool:
    try:
        _dump(value)
    except Exception:  # whatever a user's object raises when it is pickled
        return False
    return True


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What would be sent with ``value``, each with words for it."""
    if isinstance(value, functools.partial):
        yield label_of(value), value.func
        named = [*enumerate(value.args), *value.keywords.items()]
        yield from ((f"the argument {name!r} (a {_kind(each)})", each) for name, each in named)
    elif isinstance(value, types.FunctionType):
        found = inspect.getclosurevars(value)
        for where, names in (("variable", found.nonlocals), ("global", found.globals)):
            yield from ((f"the {where} {n!r} (a {_kind(v)})", v) for n, v in names.items())
        for each in value.__defaults__ or ():
            yield f"a default value (a {_kind(each)})", each
    elif isinstance(value, type):
        members = dict(vars(value))
        yield from ((f"{value.__name__}.{n} (a {_kind(v)})", v) for n, v in members.items())
    elif isinstance(value, types.MethodType):
        yield f"its {_kind(value.__self__)}", value.__self__
    elif isinstance(value, dict):
        yield from ((f"the entry {n!r} (a {_kind(v)})", v) for n, v in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"item {n} (a {_kind(v)})", v) for n, v in enumerate(value))
    elif hasattr(value, "__dict__"):
        yield from ((f"its .{n} (a {_kind(v)})", v) for n, v in vars(value).items())


def _kind(value: object) -> str:
    return type(value).__qualname__
