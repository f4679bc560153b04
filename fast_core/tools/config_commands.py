"""The commands that speak of configurations, and the configuration that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fast_core.errors import ConfigError
from fast_core.tools.command_line import Argument, Option

if TYPE_CHECKING:
    from fast_core.config import RunConfig


def schema(
    markdown: Annotated[bool, Option(help="Print the reference for people instead.")] = False,
) -> int:
    """Print the JSON Schema of configuration files."""
    from fast_core.config import reference as config_reference
    from fast_core.config.algorithms import REGISTRY, algorithm_config_type

    algorithms = {name: algorithm_config_type(name) for name in REGISTRY}
    write = config_reference.markdown if markdown else config_reference.json_schema
    print(write(algorithms), end="")
    return 0


def defaults(
    algorithm: Annotated[str, Option(metavar="NAME", help="Algorithm to show.")] = "ppo",
) -> int:
    """Print a commented configuration file with every default."""
    from fast_core.config import reference as config_reference
    from fast_core.config.algorithms import algorithm_config_type

    text = config_reference.template(algorithm, algorithm_config_type(algorithm))
    print(text, end="")
    return 0


def explain(
    key: Annotated[
        str, Argument("KEY", "A key, a group of keys or an algorithm; all groups without.", "key")
    ] = "",
) -> int:
    """Say what a key means, what it takes and what its default is."""
    from fast_core.config.algorithms import REGISTRY, algorithm_config_type
    from fast_core.config.explaining import explain as explained

    own = {key: algorithm_config_type(key)} if ":" in key else {}
    algorithms = {name: algorithm_config_type(name) for name in REGISTRY} | own
    print(explained(key, algorithms), end="")
    return 0


def load(path: Path, overrides: list[str]) -> RunConfig:
    """The configuration of a file, or of ``KEY=VALUE`` alone.

    Raises:
        ConfigError: It can't be read, or there is no file and no algorithm.
    """
    if "=" in str(path) and not path.exists():  # launch without a file
        from fast_core.tools.init import of_environment

        given = [str(path), *overrides]
        names = [each.partition("=")[2] for each in given if each.startswith("algorithm.name=")]
        if not names:
            raise ConfigError(
                "without a configuration file the algorithm is needed too: algorithm.name=ppo, say "
                "(or `fastloop train ppo --env CartPole-v1`)."
            )
        return of_environment(names[-1], None, given)
    from fast_core.config import file
    from fast_core.config.algorithms import algorithm_config_type
    from fast_core.monitor.run_directory import RunDirectory

    RunDirectory(path.parent).look_where_it_began()  # it may be a run's own config.yaml
    return file.load(path, overrides, algorithm_config_type)
