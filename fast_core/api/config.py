"""The configuration of a run, as Python code makes and reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Self

from fast_core.api import sending
from fast_core.config import (
    AlgorithmConfig,
    CallbackConfig,
    CheckpointConfig,
    DashboardConfig,
    DiagnosticsConfig,
    EnvironmentConfig,
    EvaluationConfig,
    MemoryConfig,
    MetricsConfig,
    NodesConfig,
    PolicyConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
    StopConfig,
    SupervisionConfig,
)
from fast_core.config import file as config_file
from fast_core.config import yaml_text as config_yaml
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import ENVIRONMENT_FILE
from fast_core.system.surroundings import expanded

Overrides = Mapping[str, object] | Iterable[str] | None
_SOURCE = "the configuration"
_ID = "environment.id"


class Config:
    """A checked configuration: every key of docs/configuration.md, as an attribute.

    Immutable. ``Config(name="a", environment={"id": "CartPole-v1"}, algorithm={"name": "ppo"},
    stop={"env_steps": 10_000})`` takes what a YAML file would hold; `load` reads one.

    Attributes:
        values: The same as the typed value that FastLoop works with.
        code: An environment that was given as a Python object, if it has to be sent as code.
    """

    # In the order of `RunConfig`, whose they are.
    name: str
    directory: str
    seed: int
    mode: str
    environment: EnvironmentConfig
    rollout: RolloutConfig
    horizon_env_steps: int | None
    replay: ReplayConfig
    policy: PolicyConfig
    algorithm: AlgorithmConfig
    nodes: NodesConfig
    scheduler: SchedulerConfig
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    stop: StopConfig
    memory: MemoryConfig
    metrics: MetricsConfig
    callbacks: tuple[CallbackConfig, ...]
    supervision: SupervisionConfig
    dashboard: DashboardConfig
    diagnostics: DiagnosticsConfig

    values: RunConfig
    code: bytes | None

    def __init__(self, tree: Mapping[str, object] | None = None, /, **keys: object) -> None:
        """Check a configuration.

        Args:
            tree: Nested dicts, as a YAML file would hold them. ``environment``, or its ``id``, may
                be a function or class that makes the environment.
            keys: The same for top-level keys, in place of those of ``tree``.

        Raises:
            ConfigError: Some keys or values are wrong; all are listed.
        """
        self._set(*_checked({**(tree or {}), **keys}, None))

    @classmethod
    def load(cls, path: str | PathLike[str], overrides: Overrides = None) -> Self:
        """Read a YAML file.

        Args:
            path: The file.
            overrides: See `changed`.

        Raises:
            ConfigError: It can't be read, or some keys or values are wrong; all are listed.
        """
        lines, code = _split(overrides)
        values = config_file.load(expanded(path, "the configuration"), lines, algorithm_config_type)
        return cls._of(values, code)

    def changed(self, overrides: Overrides) -> Self:
        """The same configuration with other values for some keys.

        Args:
            overrides: ``{"algorithm.learning_rate": 1e-4}``, or a list of texts as on the command
                line, ``["algorithm.learning_rate=1e-4"]``.

        Raises:
            ConfigError: Some keys or values are wrong; all are listed.
        """
        values, code = _checked(config_file.stated(self.values), overrides)
        kept = values.environment.pickled == self.environment.pickled
        return self._of(values, self.code if kept and code is None else code)

    @classmethod
    def _of(cls, values: RunConfig, code: bytes | None = None) -> Self:
        """What is checked already, as a `Config`."""
        made = cls.__new__(cls)
        made._set(values, code)
        return made

    def _set(self, values: RunConfig, code: bytes | None) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "code", code)

    def __getattr__(self, name: str) -> object:
        if name not in RunConfig.__struct_fields__:
            raise AttributeError(f"a Config has no {name!r}; it has the keys of a configuration")
        return getattr(self.values, name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Config can't be changed; config.changed({{{name!r}: ...}}) makes one"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return (self.values, self.code) == (other.values, other.code)

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *RunConfig.__struct_fields__]

    def __str__(self) -> str:
        """Every key, as YAML."""
        return config_file.dumps(self.values)

    def __repr__(self) -> str:
        what = f"{self.algorithm.name} on {self.environment.id}"
        return f"<Config {self.name!r}: {what}, seed {self.seed}>"


def as_config(
    given: Config | str | PathLike[str] | Mapping[str, object], overrides: Overrides
) -> Config:
    """A configuration, whatever it is given as: itself, the path of its file, or nested dicts.

    Raises:
        ConfigError: It can't be read, or some keys or values are wrong; all are listed.
    """
    if isinstance(given, Config):
        return given.changed(overrides) if overrides else given
    if isinstance(given, str | PathLike):
        return Config.load(given, overrides)
    if isinstance(given, Mapping):
        return Config._of(*_checked(given, overrides))
    raise ConfigError(
        "a configuration must be a Config, the path of a YAML file, or a dict of what such a file "
        f"would hold; got a {type(given).__name__}."
    )


def environment_of(keys: Mapping[str, object]) -> EnvironmentConfig:
    """The configuration of an environment alone.

    Raises:
        ConfigError: Some keys or values are wrong; all are listed.
    """
    return config_file.environment_from_tree(keys, source=_SOURCE)


def _checked(tree: Mapping[str, object], overrides: Overrides) -> tuple[RunConfig, bytes | None]:
    lines, code = _split(overrides)
    tree, code_inside = _with_keys(tree)
    values = config_file.from_tree(tree, lines, algorithm_config_type, source=_SOURCE)
    return values, code or code_inside


def _with_keys(tree: Mapping[str, object]) -> tuple[Mapping[str, object], bytes | None]:
    """``tree`` with keys for an environment that is a Python object, and the code of that."""
    environment = tree.get("environment")
    inside = environment.get("id") if isinstance(environment, Mapping) else environment
    if not sending.is_object(inside):
        return tree, None
    others = environment if isinstance(environment, Mapping) else {}
    keys, code = _sent(inside)
    return {**tree, "environment": {**others, **keys}}, code


def override_lines(overrides: Overrides) -> list[str]:
    """Overrides as on the command line.

    Raises:
        ConfigError: They are no overrides, or hold an environment that has to be sent as code.
    """
    lines, code = _split(overrides)
    if code is not None:
        raise ConfigError(
            "a run that is resumed keeps its environment; got one as a Python object, whose code "
            "is not that of the run. A new run can go on with it: "
            "train(run.config, overrides, resume=run)."
        )
    return lines


def _split(overrides: Overrides) -> tuple[list[str], bytes | None]:
    """Overrides as on the command line, and the code of an environment among them."""
    if overrides is None:
        return [], None
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise ConfigError(
            "overrides must be a dict such as {'seed': 1}, or a list such as ['seed=1']; got "
            f"{overrides!r}."
        )
    if not isinstance(overrides, Mapping):
        return [str(line) for line in overrides], None
    code, values = None, dict(overrides)
    for key in ("environment", _ID):
        maker = values.get(key)
        if sending.is_object(maker):
            keys, code = _sent(values.pop(key))
            values |= {f"environment.{name}": value for name, value in keys.items()}
    tree, code_inside = _with_keys(values)
    checked = {key: config_file.plain(value, key, "overrides") for key, value in tree.items()}
    lines = [f"{key}={config_yaml.inline(value)}" for key, value in checked.items()]
    return lines, code or code_inside


def _sent(maker: object) -> tuple[dict[str, object], bytes | None]:
    """The keys of an environment that is a Python object, and its code if it needs some."""
    maker = sending.checked_maker(maker)
    if name := sending.name_of(maker):
        return {"id": name, "pickled": None}, None
    return {"id": sending.label_of(maker), "pickled": ENVIRONMENT_FILE}, sending.pickled(maker)
