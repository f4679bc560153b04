"""Making a Gymnasium environment and describing it."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from msgspec.structs import replace

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import EnvironmentConfig, WrapperConfig
from fast_core.envs.atari import atari_kwargs, import_ale, preprocess
from fast_core.envs.description import describe
from fast_core.envs.mujoco_warnings import catch_mujoco_warnings
from fast_core.envs.place import ALONE, Place
from fast_core.errors import ConfigError
from fast_core.system.extras import to_install
from fast_core.system.importing import (
    classes_hint,
    colon_hint,
    import_fault,
    named,
    user_module,
)

OLDEST = 1  # older ones of Gymnasium end and reset environments differently
_OF_GYMNASIUM = ("max_episode_steps", "disable_env_checker")  # what `gymnasium.make` takes itself
_GIVEN = ("render_mode", "num_envs")  # what nobody gives in environment.kwargs
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
    if spec.entry_point is None:
        raise ConfigError(
            f"environment.id {config.id!r} is registered with a vectorised form alone, and "
            "policies are evaluated in single environments. Register an entry_point beside its "
            "vector_entry_point, which environment.backend: gymnasium_vector trains in."
        )
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.atari is None:
        with explaining(config, spec.entry_point, {**spec.kwargs, **kwargs}):
            return gymnasium.make(spec, disable_env_checker=True, **kwargs)
    if config.frame_skip > 1:
        raise ConfigError(
            f"environment.frame_skip {config.frame_skip} and environment.atari contradict each "
            "other; use environment.atari.frame_skip"
        )
    limit = kwargs.pop("max_episode_steps", None)
    kwargs = atari_kwargs(spec, kwargs)
    with explaining(config, spec.entry_point, {**spec.kwargs, **kwargs}):
        game = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    return preprocess(game, config.atari, limit)


@contextmanager
def explaining(
    config: EnvironmentConfig, entry: object, kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Say what is missing, or which arguments there are, where an environment can't be made.

    Args:
        config: Which environment.
        entry: What makes it, or where that is.
        kwargs: What that is given.

    Raises:
        ConfigError: That is why.
        Exception: Whatever else a constructor raises.
    """
    try:
        yield
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        extra = re.match(r"gymnasium\.envs\.(mujoco|box2d)", str(entry))
        lacks = str(error) if isinstance(error, gymnasium.error.Error) else import_fault(error)
        if extra:
            lacks = f"a simulator is not installed. Run {to_install(extra[1])}."
        raise ConfigError(f"environment.id {config.id!r} can't be made: {lacks}") from error
    except TypeError as error:
        if said := _misfit(entry, kwargs):
            raise ConfigError(f"environment.kwargs don't fit {config.id!r}: {said}") from error
        raise


def _misfit(entry: object, kwargs: Mapping[str, Any]) -> str:
    """Why ``kwargs`` are not what makes an environment takes, and what that is; else nothing."""
    creator: Any = load_env_creator(entry) if isinstance(entry, str) else entry
    given = {k: v for k, v in kwargs.items() if k not in _OF_GYMNASIUM}
    try:
        parameters = inspect.signature(creator).parameters.values()
        inspect.Signature([*parameters]).bind(**given)
    except ValueError:  # it has no signature
        return ""
    except TypeError as error:
        free = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        free = [p for p in free if p.name not in _GIVEN]
        missing = [p.name for p in free if p.default is p.empty and p.name not in given]
        if missing:
            return f"{error}. Give it: environment.kwargs.{missing[0]}=VALUE."
        takes = ", ".join(p.name for p in free) or "none"
        return f"{error}. It takes: {takes}."
    return ""


def _as_gymnasium_takes(env: Env, kind: object, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """With arrays and tuples in place of lists where a wrapper of Gymnasium's wants those.

    YAML has lists alone. Arrays have the dtype of what they bound. Wrappers of others are given
    what is written.
    """
    given = dict(kwargs)
    if str(getattr(kind, "__module__", "")).startswith("gymnasium.wrappers."):
        parameters = inspect.signature(cast("Callable[..., object]", kind)).parameters
        for name in [name for name, value in given.items() if isinstance(value, list)]:
            wanted = str(parameters[name].annotation) if name in parameters else ""
            if "ndarray" in wanted:
                space = env.action_space if "action" in name else env.observation_space
                exact = space.dtype == np.float64
                given[name] = np.asarray(given[name], np.float64 if exact else np.float32)
            elif "tuple" in wanted:
                given[name] = tuple(given[name])
    return given


def _wrap(env: Env, wrapper: WrapperConfig, key: str) -> Env:
    kind = cast("Callable[..., object]", named(wrapper.name, key))
    made: object = kind(env, **_as_gymnasium_takes(env, kind, wrapper.kwargs))
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
        if near := _nearest(name, [*gymnasium.registry, *classes]):
            hint = f" Nearest: {', '.join(map(repr, near))}."
        elif module:
            hint = f" Of {module!r}: {classes_hint(sys.modules[module], gymnasium.Env)}"
        else:
            hint = colon_hint(name)
        raise ConfigError(
            f"environment.id must name a registered environment, or a class as "
            f"'package.module:Class'; got {config.id!r} ({_said(error)}).{hint} "
            "environment.modules names the modules that register your own."
        ) from error
    if str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        catch_mujoco_warnings()
    return spec


def _nearest(name: str, names: list[str]) -> list[str]:
    """Those most like ``name``, whatever their versions, the newest of each first."""
    by_stem: dict[str, list[str]] = {}
    space = name.rpartition("/")[0]
    for each in [each for each in names if each.rpartition("/")[0] in (space, "ALE", "fastloop")]:
        by_stem.setdefault(each.rpartition("-v")[0].lower() or each.lower(), []).insert(0, each)
    stem = name.rpartition("-v")[0].lower() or name.lower()
    near = difflib.get_close_matches(stem, by_stem, n=3, cutoff=0.65)
    return [each for found in near for each in by_stem[found]][:3]


def _said(error: gymnasium.error.Error) -> str:
    """What Gymnasium says, without what it takes for meant."""
    return str(error).partition(" Did you mean")[0].rstrip(".")


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
    for name in ("observation_space", "action_space"):
        if not isinstance(space := getattr(env, name, None), gymnasium.Space):
            raise ConfigError(
                f"environment {config.id!r} must have {name}, a space of gymnasium.spaces; got "
                f"{space!r}. Set self.{name} in its __init__."
            )
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
