"""LightZero's entries, with collecting and evaluating beside training."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fast_core.clients.lightzero.library import Entry, Its, LightZero, imported
from fast_core.clients.lightzero.options import read_options
from fast_core.clients.lightzero.run import Limits, train, whole
from fast_core.errors import ConfigError

_NEEDED = ("exp_name", "env", "policy")
_NEEDED_OF_CREATE = ("env", "env_manager", "policy")


_DOCUMENTATION = """Train as LightZero's entry of this name, with what `Options` adds.

    Args:
        input_cfg: ``[main_config, create_config]``.
        seed: Of everything.
        model: The network; None makes what the configuration says.
        model_path: A checkpoint to begin with.
        max_train_iter: Updates after which no further round begins; None for no limit.
        max_env_step: Environment steps, likewise.
        **options: Those of `Options`; they win over ``main_config.policy``.

    Returns:
        The policy that learned.

    Raises:
        ConfigError: LightZero can't be imported, or the configuration lacks something or asks for
            what can't be done.
        NodeFailed: A collector, the evaluator or the learner raised, or died.
    """


def _entry(name: Entry) -> Callable[..., Its]:
    def train_entry(
        input_cfg: Sequence[Any],
        seed: int = 0,
        model: Its = None,
        model_path: str | None = None,
        max_train_iter: float | None = None,
        max_env_step: float | None = None,
        **options: Any,
    ) -> Its:
        limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
        return _train(name, input_cfg, seed, model, model_path, limits, options)

    train_entry.__name__ = train_entry.__qualname__ = name
    train_entry.__doc__ = _DOCUMENTATION
    return train_entry


train_muzero = _entry("train_muzero")
train_muzero_segment = _entry("train_muzero_segment")  # segments, reanalysis of the buffer
train_unizero = _entry("train_unizero")  # UniZero's world models
train_unizero_segment = _entry("train_unizero_segment")

ENTRIES: dict[str, Callable[..., Its]] = {
    "train_muzero": train_muzero,
    "train_muzero_segment": train_muzero_segment,
    "train_unizero": train_unizero,
    "train_unizero_segment": train_unizero_segment,
}


def _train(
    entry: Entry,
    input_cfg: Sequence[Any],
    seed: int,
    model: Its,
    model_path: str | None,
    limits: Mapping[str, float | None],
    changes: Mapping[str, Any],
) -> Its:
    main, create = checked(input_cfg)
    options = read_options(main.policy, changes)
    bounds = Limits(**{name: whole(name, value) for name, value in limits.items()})
    library = LightZero(entry)
    cfg = library.compiled(main, create, seed)
    return train(library, cfg, options, model=model, model_path=model_path, limits=bounds)


def checked(input_cfg: Sequence[Any]) -> tuple[Its, Its]:
    """A configuration that has what is needed.

    Raises:
        ConfigError: It has not.
    """
    if not isinstance(input_cfg, list | tuple) or len(input_cfg) != 2:
        raise ConfigError(
            "a LightZero configuration is [main_config, create_config]; got "
            f"{type(input_cfg).__name__!r}"
        )
    parts = (("main_config", _NEEDED), ("create_config", _NEEDED_OF_CREATE))
    for config, (name, needed) in zip(input_cfg, parts, strict=True):
        for key in needed:
            if not hasattr(config, key):
                raise ConfigError(
                    f"{name} needs {', '.join(needed)}; {key!r} is missing. LightZero's own "
                    "configurations in zoo/ have all of them, as EasyDict."
                )
    if not hasattr(input_cfg[1].policy, "type"):
        raise ConfigError("create_config.policy needs a type, such as 'muzero'; there is none")
    return input_cfg[0], input_cfg[1]


def install(**options: Any) -> list[str]:
    """Have scripts that import an entry of LightZero's from now on get the one of here.

    Args:
        **options: Those of `Options`, for every run; arguments of a call win.

    Returns:
        The names of the entries that are called, growing as they are.

    Raises:
        ConfigError: LightZero can't be imported, or an option is unknown or wrong.
    """
    read_options({}, options)
    lzero = imported("lzero.entry")
    called: list[str] = []
    for name in [each for each in vars(lzero) if each.startswith("train_")]:
        entry = _noted(called, name, ENTRIES.get(name) or functools.partial(_refuse, name), options)
        for module in (lzero, sys.modules.get(f"lzero.entry.{name}")):
            if module is not None:
                setattr(module, name, entry)
    return called


def _noted(
    called: list[str], name: str, entry: Callable[..., Its], options: Mapping[str, Any]
) -> Callable[..., Its]:
    def run(*arguments: Any, **keywords: Any) -> Its:
        called.append(name)
        return entry(*arguments, **{**options, **keywords})

    return run


def _refuse(name: str, *arguments: Any, **keywords: Any) -> Its:
    raise ConfigError(
        f"{name} is not among what runs asynchronously here: {', '.join(ENTRIES)}. Run the script "
        "with python for LightZero's own, or put its collector, learner, buffer and evaluator "
        "under fast_core.integrations.AsyncTrainer, as docs/embedding.md shows."
    )
