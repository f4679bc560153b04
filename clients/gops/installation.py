"""Puts FastLoop where GOPS's scripts look for trainers."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from inspect import signature
from types import ModuleType
from typing import Any

from fast_core.clients.gops.options import PARALLEL, SERIAL, Options
from fast_core.clients.gops.ray_stand_in import STAND_IN, standing_in
from fast_core.clients.gops.trainer import FastLoopTrainer, OwnSamplesTrainer
from fast_core.errors import ConfigError

_MAKERS = ("alg", "buffer", "evaluator", "sampler")
_MARK = "fast_core_original"


def install(*, serial: bool = False, tensorboard: bool = True, **options: Any) -> list[str]:
    """Have GOPS's trainers be FastLoop's, in this process, before scripts import them.

    Args:
        serial: Whether off_serial_trainer and on_serial_trainer are too.
        tensorboard: Whether scripts' `start_tensorboard` starts a server, as in GOPS.
        **options: See `Options`; arguments of a trainer's own win.

    Returns:
        The names of the trainers of here that were made, growing as they are.

    Raises:
        ConfigError: GOPS can't be imported, or an option is unknown or wrong.
    """
    known = Options.__dataclass_fields__
    for name in options:
        if name not in known:
            raise ConfigError(f"install() knows {', '.join(known)}; got {name!r}")
    defaults = Options().updated(options)
    taken = (*PARALLEL, *(SERIAL if serial else ()))
    with standing_in(taking_over=True):
        _imported("gops")
        trainers = _imported("gops.create_pkg.create_trainer")
        settings = _imported("gops.utils.init_args")
        makers = {name: _imported(f"gops.create_pkg.create_{name}") for name in _MAKERS}
        board = _imported("gops.utils.tensorboard_setup")
    for name, module in [*sys.modules.items()]:
        if name.startswith("gops.") and "ray" in vars(module):
            vars(module)["ray"] = STAND_IN
    made: list[str] = []
    for name in taken:
        kind = OwnSamplesTrainer if name.startswith("on_") else FastLoopTrainer
        make = functools.partial(_noted, made, functools.partial(kind, defaults=defaults))
        trainers.register(trainer=name, entry_point=make)
    for name, module in makers.items():
        wrap = _sampler_maker if name == "sampler" else _maker
        _replace(module, f"create_{name}", functools.partial(wrap, taken, defaults))
    _replace(settings, "init_args", functools.partial(_init_args, taken))
    if not tensorboard:
        _replace(board, "start_tensorboard", lambda original: _nothing)
    return made


def _noted(made: list[str], make: Callable[..., Any], *parts: Any, **kwargs: Any) -> Any:
    made.append(kwargs["trainer"])
    return make(*parts, **kwargs)


def _replace(module: ModuleType, name: str, wrap: Callable[[Any], Any]) -> None:
    """Put what ``wrap`` makes of GOPS's own function in its place, also a second time."""
    found = getattr(module, name)
    original = getattr(found, _MARK, found)
    replaced = wrap(original)
    setattr(replaced, _MARK, original)
    setattr(module, name, replaced)


def _maker(taken: tuple[str, ...], defaults: Options, original: Any) -> Any:
    @functools.wraps(original)
    def create(**kwargs: Any) -> Any:
        with standing_in(taking_over=kwargs.get("trainer") in taken):
            return original(**kwargs)

    return create


def _sampler_maker(taken: tuple[str, ...], defaults: Options, original: Any) -> Any:
    @functools.wraps(original)
    def create(**kwargs: Any) -> Any:
        name = kwargs.get("trainer")
        if name in taken and name in SERIAL:
            options = defaults.updated(kwargs)
            if not options.is_inline(name):
                # For processes of their own, with the seeds that GOPS gives them there.
                apart = "off_async_trainer" if name.startswith("off_") else "on_sync_trainer"
                kwargs |= {"trainer": apart, "num_samplers": options.num_samplers or 1}
        if name in taken and kwargs["trainer"] == "on_sync_trainer":
            kwargs["sample_batch_size"] = _rows_of_each(kwargs)
        with standing_in(taking_over=name in taken):
            return original(**kwargs)

    return create


def _rows_of_each(given: Mapping[str, Any]) -> int:
    """Rows that each of several samplers collects for an update.

    GOPS's PPO learns from ``sample_batch_size`` of the rows that it is given, the first ones, and
    all samplers together collect just those. Others learn from whatever comes, as in GOPS.

    Raises:
        ConfigError: They can't be shared out evenly.
    """
    algorithm, rows, samplers = (
        given[name] for name in ("algorithm", "sample_batch_size", "num_samplers")
    )
    kinds = [getattr(sys.modules[each], algorithm, None) for each in _algorithms()]
    if not any(kind and "sample_batch_size" in signature(kind).parameters for kind in kinds):
        return int(rows)
    if rows % samplers:
        raise ConfigError(
            f"sample_batch_size must be divisible by num_samplers with {algorithm}, which learns "
            f"from sample_batch_size rows in all; got {rows} and {samplers}. Take "
            f"{rows - rows % samplers or samplers} or {rows + samplers - rows % samplers} rows, "
            "num_mini_batch and mini_batch_size to match, or other samplers."
        )
    return int(rows // samplers)


def _algorithms() -> list[str]:
    return [name for name in [*sys.modules] if name.startswith("gops.algorithm.")]


def _init_args(taken: tuple[str, ...], original: Any) -> Any:
    @functools.wraps(original)
    def init_args(env: Any, **kwargs: Any) -> Any:
        with standing_in(taking_over=kwargs.get("trainer") in taken):
            return original(env, **kwargs)

    return init_args


def _nothing(*arguments: Any, **keywords: Any) -> None:
    pass


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name == "gops":
            raise ConfigError(
                "GOPS can't be imported: there is no module 'gops'. Install it in this environment "
                "(`pip install -e .` in its folder), or name its folder in PYTHONPATH."
            ) from error
        raise ConfigError(
            f"GOPS can't be imported: {name} raised {type(error).__name__}: {error}. Install what "
            "it misses in this environment."
        ) from error
