"""Making a Gymnasium environment and describing it."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig, WrapperConfig
from fast_core.envs.atari import atari_kwargs, import_ale, preprocess
from fast_core.envs.description import describe
from fast_core.envs.mujoco_warnings import catch_mujoco_warnings
from fast_core.envs.place import ALONE, Place
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec, SpaceSpec
from fast_core.system.importing import (
    classes_hint,
    colon_hint,
    import_fault,
    named,
    user_module,
)

OLDEST = 1  # older ones of Gymnasium end and reset environments differently
Env = gymnasium.Env[Any, Any]
Maker = Callable[[EnvironmentConfig, Place], Env]


def make_env(
    config: EnvironmentConfig, place: Place = ALONE, maker: Callable[..., Env] | None = None
) -> Env:
    """Make the configured environment with its wrappers, the one for ``place`` in the run.

    With a ``maker`` that makes it, not what the configured id names.

    Raises:
        ConfigError: No environment of this name is registered, a module can't be imported, a
            wrapper is none or learns, or ``environment.atari`` does not fit.
        Exception: Whatever a constructor raises.
    """
    check_gymnasium()
    place.tell()
    config = place.fill(config)
    spec = registered(config) if maker is None else EnvSpec(id=config.id, entry_point=maker)
    env = _make_bare(config, spec)
    try:
        for index, wrapper in enumerate(config.wrappers):
            env = _wrap(env, wrapper, f"environment.wrappers[{index}].name")
        _refuse_learning(env)
    except BaseException:
        env.close()
        raise
    return env


def check_gymnasium(version: str = gymnasium.__version__) -> None:
    """Refuse a Gymnasium that environments can't be trained with; GOPS needs such a one beside us.

    Raises:
        ConfigError: It is too old.
    """
    if int(version.partition(".")[0]) < OLDEST:
        raise ConfigError(
            f"environments need gymnasium {OLDEST}.0 or newer; {version} is installed. "
            f"`pip install 'gymnasium>={OLDEST}.0'`, in an environment without GOPS, which needs "
            "an older one (`fastloop gops` works with both)."
        )


def _make_bare(config: EnvironmentConfig, spec: EnvSpec) -> Env:
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.atari is None:
        return gymnasium.make(spec, disable_env_checker=True, **kwargs)
    if config.frame_skip > 1:
        raise ConfigError(
            f"environment.frame_skip {config.frame_skip} and environment.atari contradict each "
            "other; use environment.atari.frame_skip"
        )
    limit = kwargs.pop("max_episode_steps", None)
    kwargs = atari_kwargs(spec, kwargs)
    return preprocess(gymnasium.make(spec, disable_env_checker=True, **kwargs), config.atari, limit)


def _as_gymnasium_takes(kind: object, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """With arrays and tuples in place of lists where a wrapper of Gymnasium's wants those.

    YAML has lists alone. Wrappers of others are given what is written.
    """
    given = dict(kwargs)
    if str(getattr(kind, "__module__", "")).startswith("gymnasium.wrappers"):
        parameters = inspect.signature(cast("Callable[..., object]", kind)).parameters
        for name in [name for name, value in given.items() if isinstance(value, list)]:
            wanted = str(parameters[name].annotation) if name in parameters else ""
            if "ndarray" in wanted:
                given[name] = np.asarray(given[name], np.float32)
            elif "tuple" in wanted:
                given[name] = tuple(given[name])
    return given


def _wrap(env: Env, wrapper: WrapperConfig, key: str) -> Env:
    kind = cast("Callable[..., object]", named(wrapper.name, key))
    made: object = kind(env, **_as_gymnasium_takes(kind, wrapper.kwargs))
    if not isinstance(made, gymnasium.Env):
        raise ConfigError(
            f"{key} must make a gymnasium.Env around the one it is given; {wrapper.name!r} made a "
            f"{type(made).__name__}. Derive it from gymnasium.Wrapper."
        )
    return made


def check_attributes(env: Env, config: EnvironmentConfig) -> None:
    """Check that ``environment.attributes`` are attributes of ``env`` or of one of its wrappers.

    Raises:
        ConfigError: One is not, or is a method.
    """
    for name in config.attributes:
        if env.has_wrapper_attr(name) and not callable(env.get_wrapper_attr(name)):
            continue
        what = "is a method" if env.has_wrapper_attr(name) else "is none"
        named = {n for layer in layers(env) for n in vars(layer) if not n.startswith("_")}
        near = difflib.get_close_matches(name, sorted(named), n=3)
        hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
        raise ConfigError(
            f"environment.attributes.{name} must be an attribute that environment {config.id!r} "
            f"or one of its wrappers has once it is made; {name!r} {what}.{hint} Set it in "
            "__init__, and let reset and step read it."
        )


def layers(env: Env) -> Iterator[Env]:
    """``env`` and everything inside its wrappers, the outermost first."""
    yield env
    while isinstance(env, gymnasium.Wrapper):
        yield (env := env.env)


def _refuse_learning(env: Env) -> None:
    """Refuse wrappers that keep statistics: each process, and each resume, would have its own."""
    for layer in layers(env):
        if isinstance(layer, NormalizeObservation | NormalizeReward):
            name = type(layer).__name__
            what = "observations" if isinstance(layer, NormalizeObservation) else "rewards"
            raise ConfigError(
                f"the environment is wrapped in {name}, whose statistics every environment would "
                "keep for itself, evaluations and resumed runs from nothing. Remove it and set "
                f"algorithm.normalize_{what}: true, which ppo has; otherwise scale by numbers that "
                f"stay, in a gymnasium.{what.capitalize()[:-1]}Wrapper."
            )


def registered(config: EnvironmentConfig) -> EnvSpec:
    """What is registered under the configured id; imports what registers it first.

    A name that is not registered may be that of a class, or of a function that makes one, in the
    module before the colon.

    Raises:
        ConfigError: No environment of this name is registered, or a module can't be imported.
    """
    module, _, name = config.id.rpartition(":")  # Gymnasium's "module:name", or "module:Class"
    for each in (*config.modules, module) if module else config.modules:
        _import(each)
    if config.atari is not None or name.startswith("ALE/"):
        import_ale()
    if config.pickled is not None:
        return EnvSpec(id=config.id, entry_point=_pickled(config.pickled))
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        own = vars(sys.modules[module]) if module else {}
        if callable(own.get(name)):
            return EnvSpec(id=name, entry_point=config.id)
        classes = [each for each, value in own.items() if isinstance(value, type)]
        names = [*gymnasium.registry, *classes]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            hint = f" Nearest: {', '.join(map(repr, near))}."
        elif module:
            hint = f" Of {module!r}: {classes_hint(sys.modules[module], gymnasium.Env)}"
        else:
            hint = colon_hint(name)
        raise ConfigError(
            f"environment.id must name a registered environment, or a class as "
            f"'package.module:Class'; got {config.id!r} ({error}).{hint} environment.modules names "
            "the modules that register your own."
        ) from error
    if str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        catch_mujoco_warnings()
    return spec


def _pickled(path: str) -> Callable[..., Env]:
    # here, so that only who needs it imports cloudpickle
    from fast_core.envs import pickled

    return pickled.load(path)


def _import(module: str) -> None:
    try:
        user_module(module)
    except BaseException as error:  # a user's module may raise anything
        raise ConfigError(
            f"environment.modules or environment.id names the module {module!r}, which can't be "
            f"imported: {import_fault(error)}"
        ) from error


def describe_env(env: Env, config: EnvironmentConfig) -> EnvironmentSpec:
    """Describe ``env`` as it is, without trying whether it is repeatable.

    Raises:
        ConfigError: A space is not supported, or does not fit the configuration.
    """
    limit = env.spec.max_episode_steps if env.spec else None
    spec = describe(config, env.observation_space, env.action_space, limit)
    return replace(
        spec,
        action_names=_action_names(env, spec.action),
        one_per_process=bool(env.metadata.get("one_per_process")),
    )


def _action_names(env: Env, action: SpaceSpec) -> tuple[str, ...]:
    """What an environment calls its choices, or the buttons that it presses at once.

    Atari games have ``get_action_meanings``, MiniGrid an enumeration ``actions``, and
    stable-retro ``buttons``. A name is not worth a run: whatever they raise, there is none.
    """
    inner: Any = env.unwrapped
    try:
        if action.kind == "multi_discrete":
            names, count = inner.buttons, len(action.counts)
        else:
            found = getattr(inner, "get_action_meanings", None)
            names = [each.name for each in inner.actions] if found is None else found()
            count = action.n
        said = tuple(str(name) if name else "" for name in names)
    except Exception:
        return ()
    return said if count and len(said) == count else ()
