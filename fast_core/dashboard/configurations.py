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
from fast_core.config.alike import compared, within
from fast_core.config.leaves import leaves_of
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.run_state import parsed
from fast_core.system.regular_file import read_regular

_SEED = re.compile(rb"^seed: .*$", re.MULTILINE)


@dataclass(frozen=True)
class Configuration:
    """What a run was launched with, but for its seed.

    Attributes:
        id: The same for all that train alike.
        name: The runs' name.
        compared: What decides what they learn, by dotted key.
    """

    id: str
    name: str
    compared: Mapping[str, object]


class Configurations:
    """Reads the configurations of runs; of those whose files differ in the seed alone, one."""

    def __init__(self) -> None:
        self._read: dict[bytes, Configuration | None] = {}

    def read(self, run: RunDirectory) -> Configuration | None:
        """The configuration of a run, the same object for equal ones; None without a valid one."""
        try:
            text = _SEED.sub(b"", read_regular(run.config))
        except OSError:
            return None
        key = blake2b(text, digest_size=16).digest()
        if key not in self._read:
            self._read[key] = _configuration(text)
        return self._read[key]


def _configuration(text: bytes) -> Configuration | None:
    try:
        tree = parsed(text)
    except (yaml.YAMLError, ValueError):
        return None
    if not isinstance(tree, dict) or not {"name", "algorithm", "environment"} <= tree.keys():
        return None
    try:
        decisive = compared(_completed(leaves_of(tree)))
    except RecursionError:  # an alias within what it stands for
        return None
    canonical = repr(sorted(decisive.items(), key=lambda item: item[0]))
    return Configuration(
        blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        str(tree["name"]),
        decisive,
    )


def _completed(found: dict[str, object]) -> dict[str, object]:
    """With defaults for keys that were added to FastLoop since the run began."""
    above = {key.rpartition(".")[0] for key in found}
    lacking = {key: value for key, value in _defaults().items() if key not in found}
    return found | {key: value for key, value in lacking.items() if key not in above}


@cache
def _defaults() -> dict[str, object]:
    """Of every key but those of algorithms, which would have to be imported."""
    stop, nothing = StopConfig(), AlgorithmConfig(name="")
    config = RunConfig(name="", environment=EnvironmentConfig(id=""), algorithm=nothing, stop=stop)
    leaves = leaves_of(msgspec.to_builtins(config))
    return {key: value for key, value in leaves.items() if not within(key, "algorithm")}
