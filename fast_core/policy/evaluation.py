"""Evaluating: any policy, in any environment, over exactly so many episodes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Branch, EnvironmentSpec, Tree, differences
from fast_core.config import EnvironmentConfig, EvaluationConfig, RunConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.changes import evaluated
from fast_core.envs import pickled
from fast_core.envs.instance import Instance
from fast_core.envs.making import Env, Maker, make_env
from fast_core.envs.place import VARIABLES, Place
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.playing.runner import Act
from fast_core.envs.records import leaf_of
from fast_core.errors import ConfigError, PolicyError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.actor import Actor
from fast_core.policy.episodes import Episodes
from fast_core.policy.file_checks import check_code, code_of_environment
from fast_core.policy.loading import load_policy, run_config
from fast_core.policy.policy import Policy
from fast_core.policy.recording import Trajectories
from fast_core.system.importing import user_module
from fast_core.system.seeding import Role, generators_kept
from fast_core.system.surroundings import expanded, variables_kept

Player = Policy | str | os.PathLike[str] | Callable[[Any], Any]
Watch = Callable[[Instance], None]
CHANGEABLE = ("environment.", "evaluation.")
_OTHERS = re.compile(r"evaluation\.environments\.([^.=]+)")
_OURS = ("fast_core.", "gymnasium.")  # where environments are made of without being asked


@dataclass(frozen=True)
class Setting:
    """Where a policy is evaluated.

    Attributes:
        environment: What is made; of environments that are given, what is done around them.
        evaluation: How many episodes, in how many environments at once.
        seed: Of the episodes, unless another is asked for.
        number: What the first environment has as `Place.number`.
        maker: What makes the environments.
    """

    environment: EnvironmentConfig
    evaluation: EvaluationConfig
    seed: int = 0
    number: int = 0
    maker: Maker = make_env


def evaluate(
    policy: Player,
    environment: object = None,
    episodes: int | None = None,
    seed: int | None = None,
    record: str | Path | None = None,
    *,
    deterministic: bool = True,
) -> Episodes:
    """Play whole episodes and say what they came to.

    Fresh ones: a run never evaluated on them. The same call plays the same episodes.

    Args:
        policy: A `Policy`; what `load_policy` takes; or any function from an observation, as the
            environment gives it (stacked where its configuration stacks frames), to an action, as
            the environment takes it.
        environment: None for that of the policy's run. Else a Gymnasium environment, which is left
            open; a function that makes one; an environment's id, played as the policy's own
            (stacked frames, mask, wrappers); or a configuration: of a run (`Config`, its file
            or directory, a dict) or of an environment alone (a dict with ``id``).
        episodes: How many; None takes what the configuration says, or 20.
        seed: Of the episodes; None takes that of the run, or 0.
        record: Write the trajectories to this file, ``.npz`` or ``.csv``; see `Trajectories`.
        deterministic: Without exploration; False explores as in training.

    Raises:
        PolicyError: The policy does not fit the environment, or can't be recorded there.
        ConfigError: ``episodes`` or ``seed`` is out of range.
        FastLoopError: There is no such policy or environment, or the environment raised.
    """
    _check("episodes", episodes, 1)
    _check("seed", seed, 0)
    if isinstance(policy, str | os.PathLike):
        policy = load_policy(policy)
    setting = setting_of(policy if isinstance(policy, Policy) else None, environment)
    trajectories = None if record is None else Trajectories(expanded(record, "the record"))
    with generators_kept(), variables_kept(VARIABLES):  # making environments changes them
        playing = Playing(
            policy,
            setting,
            episodes=episodes,
            seed=seed,
            explore=not deterministic,
            trajectories=trajectories,
        )
        with closing(playing):
            while playing.step():
                pass
            return playing.finish()


def _check(name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int | np.integer) or value < least):
        raise ConfigError(f"{name} must be an integer of at least {least}; got {value!r}.")


class Playing:
    """One evaluation, step by step.

    Attributes:
        runner: Plays the episodes.
        seed: Of the episodes.
    """

    def __init__(
        self,
        policy: Policy | Callable[[Any], Any],
        setting: Setting,
        *,
        episodes: int | None = None,
        seed: int | None = None,
        repeat: bool = False,
        explore: bool = False,
        watch: Watch | None = None,
        trajectories: Trajectories | None = None,
    ) -> None:
        """Make the environments; a single one with ``watch``, see `EpisodeRunner`.

        ``repeat`` plays the episodes of a run's own evaluations.
        """
        self._policy, self._trajectories = policy, trajectories
        self.seed = setting.seed if seed is None else seed
        # A function may remember: it sees one episode after the other.
        envs = setting.evaluation.envs if isinstance(policy, Policy) else 1
        self.runner = make_runner(
            setting.environment,
            episodes=episodes or setting.evaluation.episodes,
            envs=envs,
            seed=self.seed,
            role=Role.EVALUATION if repeat else Role.FRESH_EVALUATION,
            max_episode_steps=setting.evaluation.max_episode_steps,
            number=setting.number,
            watch=watch,
            record=None if trajectories is None else trajectories.keep,
            every_info=True,
            maker=setting.maker,
        )
        try:
            if trajectories is not None:
                trajectories.check(self.runner.spec)
            self._act = self._actor(envs, explore)
        except BaseException:
            self.runner.close()
            raise

    def _actor(self, envs: int, explore: bool) -> Act:
        policy, spec = self._policy, self.runner.spec
        if not isinstance(policy, Policy):
            return _Called(policy, spec)
        if differing := differences(spec, policy.environment):
            raise PolicyError(
                f"the policy was trained for other spaces, in {policy.environment.id!r}: "
                f"{spec.id!r} has {differing}. Evaluate it where its spaces are, or wrap the "
                "environment so that they are the same (environment.wrappers)."
            )
        return Actor(
            policy.config,
            policy.environment,
            policy.make_acting(),
            envs,
            explore_seed=self.seed if explore else None,
        )

    def step(self) -> bool:
        """Step every open episode; whether any is open still."""
        return self.runner.step(self._act)

    def finish(self) -> Episodes:
        """The table of all episodes; writes what was recorded."""
        runner = self.runner
        episodes = Episodes.of(
            runner.returns,
            runner.lengths,
            runner.endings,
            runner.seeds,
            runner.infos,
            runner.spec.id,
        )
        if self._trajectories is not None:
            policy = self._policy
            about: dict[str, object] = {"environment": runner.spec.id}
            if isinstance(policy, Policy):
                origin = msgspec.to_builtins(policy.origin)
                about |= {"algorithm": policy.algorithm, **origin}
            self._trajectories.write(episodes, runner.spec, about)
        return episodes

    def close(self) -> None:
        """Close the environments."""
        self.runner.close()


class _Called:
    """Asks a function for the actions of one environment."""

    def __init__(self, function: Callable[[Any], Any], spec: EnvironmentSpec) -> None:
        if not callable(function):
            raise PolicyError(
                "the policy must be a Policy, the path of one, or a function from an observation "
                f"to an action; got a {type(function).__name__}."
            )
        self._function, self._spec = function, spec

    def __call__(self, obs: Array, began: NDArray[np.bool_]) -> Array:
        space = self._spec.action
        given = np.asarray(self._function(_as_given(obs, self._spec.tree)))
        fits = given.shape == space.shape and given.dtype.kind in "biuf"
        if fits and np.can_cast(given.dtype, space.row_dtype, "same_kind"):
            return given.astype(space.row_dtype)[None]
        raise PolicyError(
            f"the policy must return actions of shape {space.shape} and {space.dtype} for "
            f"{self._spec.id!r}; got {given.dtype} of shape {given.shape}."
        )


def _as_given(obs: Array, tree: Tree) -> Any:
    """A copy of the only row of ``obs`` as the environment gives it: nested dicts and tuples."""
    if isinstance(tree, Branch):
        parts = [_as_given(obs, part) for part in tree.parts]
        return dict(zip(tree.keys, parts, strict=True)) if tree.named else tuple(parts)
    row: Any = (leaf_of(obs, tree) if tree else obs)[0]
    return row.copy()


# --- where ----------------------------------------------------------------------------------------


def setting_of(
    policy: Policy | None,
    environment: object = None,
    overrides: Sequence[str] = (),
    named: str | None = None,
) -> Setting:
    """What an evaluation of ``policy`` in ``environment`` is; see `evaluate`.

    Args:
        policy: Which, if it is one of FastLoop.
        environment: Where.
        overrides: ``environment.key=value`` and ``evaluation.key=value``.
        named: Which of ``evaluation.environments``, where ``environment`` says nothing.

    Raises:
        ConfigError: There is no such environment, or an override is none of these, or of an
            environment that is not played in.
    """
    for override in overrides:
        if not override.startswith(CHANGEABLE):
            raise ConfigError(
                f"an evaluation takes overrides of environment.* and evaluation.*; got "
                f"{override!r}. The rest is part of the training, which is over."
            )
        meant = _OTHERS.match(override)
        if meant and meant[1] != named:
            played = f"evaluation.environments.{named}" if named else "`environment`"
            raise ConfigError(
                f"{override!r} changes nothing here: this evaluation plays in {played}. Add "
                f"`--environment {meant[1]}`, or change environment.*."
            )
    if environment is None:
        if policy is None:
            raise ConfigError(
                "a function has no environment of its own; name one to evaluate it in"
            )
        if policy.run is not None:
            config = run_config(policy.run, list(overrides), others=named is not None)
            return _of_run(config, named)
        other = any(override.startswith("environment.id=") for override in overrides)
        if policy.file.played.get("pickled") and not other:
            raise ConfigError(
                f"the environment {policy.environment.id!r} of this policy was given as a Python "
                "object, which is in its run and not in its file. Name the run, or say where to "
                "evaluate it (environment.id=ID; in Python the second argument)."
            )
        setting = _of_file(policy, overrides, named)
        _check_code(policy, setting.environment, [each.partition("=")[0] for each in overrides])
        return setting
    own = _own(policy)
    if isinstance(environment, EnvironmentConfig):
        return Setting(environment, EvaluationConfig())
    values = getattr(environment, "values", environment)  # of a `Config`
    if isinstance(values, RunConfig):
        code = getattr(environment, "code", None)  # of an environment that is a Python object
        setting = _of_run(values)
        return setting if code is None else replace(setting, maker=_making(pickled.loads(code)))
    if isinstance(environment, dict):
        return _of_dict(environment, overrides)
    if isinstance(environment, gymnasium.Env):
        return _given(own, lambda: _Kept(environment), environment, EvaluationConfig(envs=1))
    if isinstance(environment, str | os.PathLike):
        setting = _named(os.fspath(environment), own)
        if policy is not None and policy.run is None and setting.environment.id == environment:
            _check_code(policy, setting.environment, ["environment.id"])
        return setting
    if callable(environment):
        return _given(own, cast("Callable[[], Env]", environment), environment, EvaluationConfig())
    raise ConfigError(
        "the environment must be a gymnasium.Env, a function that makes one, an id, or a "
        f"configuration; got a {type(environment).__name__}."
    )


def _named(name: str, own: EnvironmentConfig | None) -> Setting:
    """A configuration's file, a run's directory, or an environment's id."""
    path = Path(name).expanduser()
    if path.is_dir():
        run = RunDirectory.open(path)
        run.look_where_it_began()
        path = run.config
    if path.suffix in (".yaml", ".yml"):
        return _of_run(config_file.load(path, [], algorithm_config_type, resolved=True))
    if own is None:
        return Setting(EnvironmentConfig(id=name), EvaluationConfig())
    if own.id != name:
        own = msgspec.structs.replace(own, id=name, kwargs={}, pickled=None)
    return Setting(own, EvaluationConfig())


def _own(policy: Policy | None) -> EnvironmentConfig | None:
    """The environment that a policy was trained in."""
    if policy is None:
        return None
    setting = _of_file(policy) if policy.run is None else _of_run(run_config(policy.run))
    return setting.environment


def _of_file(policy: Policy, overrides: Sequence[str] = (), named: str | None = None) -> Setting:
    played = {**policy.file.played, "pickled": None}
    source = f"the policy of {policy.origin.run}"
    return _of_tree({"environment": played}, overrides, source, named)


def _check_code(policy: Policy, environment: EnvironmentConfig, given: Iterable[str]) -> None:
    """Refuse to import what a file names and nobody else does; ``given`` keys were given here."""
    named = {
        key: path
        for key, path in code_of_environment(environment).items()
        if key.partition("[")[0] not in given and not _is_ours(path)
    }
    what = f"the environment in the policy of {policy.origin.run}"
    check_code(what, named, policy.modules, PolicyError)


def _is_ours(path: str) -> bool:
    """Whether a module, or the environment or wrapper in it, is of FastLoop or Gymnasium.

    Nothing else in theirs: called with what a file says, many a function there runs anything, and
    `RecordVideo` writes wherever that is.
    """
    module, _, name = path.partition(":")
    if not f"{module}.".startswith(_OURS):
        return False
    with suppress(ImportError):  # who makes it says what is missing
        kind = getattr(user_module(module), name, None)
        made = isinstance(kind, type) and issubclass(kind, gymnasium.Env)
        return kind is None or (made and kind is not gymnasium.wrappers.RecordVideo)
    return True


def _of_run(config: RunConfig, named: str | None = None) -> Setting:
    known = config.evaluation.environments
    if named is not None and named not in known:
        there = f"It has {', '.join(map(repr, known))}." if known else "It has none."
        raise ConfigError(
            f"evaluation.environments has no {named!r}. {there} `fastloop eval RUN "
            f"--environment {named} evaluation.environments.{named}.KEY=VALUE` makes one."
        )
    environment = evaluated(config, named, {})
    return Setting(environment, config.evaluation, config.seed, config.numbers.command)


def _of_dict(tree: dict[str, Any], overrides: Sequence[str]) -> Setting:
    """What a run's configuration says, or an environment's alone; either may hold an object."""
    tree = tree if "id" not in tree else {"environment": tree}
    given = tree.get("environment")
    keys = given if isinstance(given, dict) else {"id": given}
    made = keys.get("id")
    if callable(made):
        name = re.sub(r"\W", "", getattr(made, "__name__", "")) or "environment"
        tree = {**tree, "environment": {**keys, "id": name}}
    setting = _of_tree(tree, overrides, "the environment's configuration")
    return replace(setting, maker=_making(pickled.plain(made))) if callable(made) else setting


def _making(made: Callable[..., Any]) -> Maker:
    """Makes environments as configured, but by a Python object."""
    return partial(make_env, maker=made)


def _of_tree(
    tree: dict[str, Any], overrides: Sequence[str], source: str, named: str | None = None
) -> Setting:
    """The environment and evaluation of a tree that may lack what an evaluation needs not."""
    rest = {"name": "evaluation", "algorithm": {"name": "ppo"}, "stop": {"env_steps": 10**12}}
    unread = {*RunConfig.__struct_fields__} - {"environment", "evaluation"}
    whole = {**{key: value for key, value in tree.items() if key not in unread}, **rest}
    config = config_file.from_tree(whole, overrides, algorithm_config_type, source=source)
    return _of_run(config, named)


def _given(
    own: EnvironmentConfig | None,
    make: Callable[[], Env],
    given: object,
    evaluation: EvaluationConfig,
) -> Setting:
    """An environment that is there or made by a function: taken as it is, played as ``own``."""
    spec = getattr(given, "spec", None)
    name = str(getattr(spec, "id", None) or getattr(given, "__name__", type(given).__name__))
    around = own or EnvironmentConfig(id=name)
    config = msgspec.structs.replace(
        around, id=name, kwargs={}, wrappers=(), atari=None, pickled=None, backend="gymnasium"
    )

    def maker(config: EnvironmentConfig, place: Place) -> Env:
        made = make()
        if not isinstance(made, gymnasium.Env):
            raise ConfigError(f"{name} must make a gymnasium.Env; it made a {type(made).__name__}.")
        return made

    return Setting(config, evaluation, maker=maker)


class _Kept(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that somebody else closes."""

    def close(self) -> None:
        """Leave it open."""
