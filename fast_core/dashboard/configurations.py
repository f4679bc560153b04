"""The configurations of many runs as plain values: nothing that they name is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import msgspec
import yaml

from fast_core.config import AlgorithmConfig, EnvironmentConfig, RunConfig, StopConfig
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.alike import compared, within
from fast_core.config.leaves import leaves_of
from fast_core.config.yaml_text import MOST_BYTES, why
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import parsed
from fast_core.system.regular_file import read_regular

_SEED = re.compile(rb"^seed: .*$", re.MULTILINE)


@dataclass(frozen=True)
class Configuration:
    """What a run was launched with, but for its seed.

    Attributes:
        id: The same for all that train alike.
        name: The runs' name.
        leaves: All of it, by dotted key.
        compared: What decides what they learn of that.
    """

    id: str
    name: str
    leaves: Mapping[str, object]
    compared: Mapping[str, object]


class Configurations:
    """Reads the configurations of runs; of those whose files differ in the seed alone, one."""

    def __init__(self) -> None:
        self._read: dict[bytes, Configuration | str] = {}

    def read(self, run: RunDirectory) -> Configuration:
        """The configuration of a run, the same object for equal ones.

        Raises:
            ConfigError: There is none that can be read.
        """
        try:
            text = _SEED.sub(b"", read_regular(run.config, MOST_BYTES))
        except OSError as error:
            raise ConfigError(f"{run.config} can't be read: {error.strerror}.") from error
        key = blake2b(text, digest_size=16).digest()
        if key not in self._read:
            self._read[key] = _configuration(text)
        found = self._read[key]
        if isinstance(found, str):
            raise ConfigError(f"{run.config} is not the configuration of a run: {found}")
        return found


def _configuration(text: bytes) -> Configuration | str:
    """What a file says, or why it says nothing."""
    try:
        tree = parsed(text)
    except yaml.YAMLError as error:
        return why(error)
    if not isinstance(tree, dict) or not {"name", "algorithm", "environment"} <= tree.keys():
        return "it has no name, algorithm and environment."
    leaves = _completed(leaves_of(tree))
    decisive = compared(leaves)
    canonical = repr(sorted(decisive.items(), key=lambda item: item[0]))
    return Configuration(
        blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        str(tree["name"]),
        leaves,
        decisive,
    )


def _completed(found: dict[str, object]) -> dict[str, object]:
    """With defaults for keys that were added to FastLoop since the run began."""
    above = {key.rpartition(".")[0] for key in found}
    defaults = {**_defaults(), **_defaults_of(str(found.get("algorithm.name")))}
    lacking = {key: value for key, value in defaults.items() if key not in found}
    return found | {key: value for key, value in lacking.items() if key not in above}


@cache
def _defaults() -> dict[str, object]:
    """Of every key but those of algorithms."""
    stop, nothing = StopConfig(), AlgorithmConfig(name="")
    config = RunConfig(name="", environment=EnvironmentConfig(id=""), algorithm=nothing, stop=stop)
    leaves = leaves_of(msgspec.to_builtins(config))
    return {key: value for key, value in leaves.items() if not within(key, "algorithm")}


@cache
def _defaults_of(algorithm: str) -> dict[str, object]:
    """Of an algorithm that comes with FastLoop; one of a user's would have to be imported."""
    if algorithm not in REGISTRY:
        return {}
    kind = algorithm_config_type(algorithm)
    tree = msgspec.to_builtins(kind(name=algorithm)) | kind.came_later
    return leaves_of({"algorithm": tree})
