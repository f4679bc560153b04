"""Which algorithms exist, and their configuration types. Imports neither torch nor learners."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection

from fast_core.config.section import AlgorithmConfig
from fast_core.errors import ConfigError
from fast_core.system.importing import colon_hint, named

# Where an algorithm's configuration type lives, as ``module:Class``.
REGISTRY = {
    "ppo": "fast_core.algos.ppo.config:PPOConfig",
    "appo": "fast_core.algos.appo.config:APPOConfig",
    "impala": "fast_core.algos.appo.config:IMPALAConfig",
    "dqn": "fast_core.algos.replay.dqn_config:DQNConfig",
    "sac": "fast_core.algos.replay.sac_config:SACConfig",
    "dsac": "fast_core.algos.replay.dsac_config:DSACConfig",
    "dsact": "fast_core.algos.replay.dsac_config:DSACTConfig",
    "td3": "fast_core.algos.replay.td3_config:TD3Config",
    "ddpg": "fast_core.algos.replay.td3_config:DDPGConfig",
    "muzero": "fast_core.algos.muzero.config:MuZeroConfig",
    "random": "fast_core.algos.random.config:RandomConfig",
}

# What others have and we don't, and the one here that takes the same actions.
_KIN = {
    **dict.fromkeys(("a2c", "trpo", "vpg", "reinforce", "ppg"), "ppo"),
    **dict.fromkeys(("a3c", "r2d2", "vtrace"), "impala"),
    **dict.fromkeys(("c51", "rainbow", "iqn", "qrdqn", "qr-dqn", "ddqn"), "dqn"),
    **dict.fromkeys(("redq", "droq", "crossq", "tqc"), "sac"),
    **dict.fromkeys(("alphazero", "efficientzero", "mcts"), "muzero"),
}


def algorithm_config_type(name: str) -> type[AlgorithmConfig]:
    """Return the configuration type of a registered algorithm or of an import path.

    Args:
        name: A key of `REGISTRY`, or ``"package.module:Class"`` of a user's algorithm.

    Raises:
        ConfigError: If nothing has this name, or what it names is not an `AlgorithmConfig`.
    """
    if ":" in name:
        return _load(name)
    if name not in REGISTRY:
        near = difflib.get_close_matches(name.lower(), REGISTRY, n=1, cutoff=0.6)
        if kin := _KIN.get(name.lower()):
            hint = f" The nearest to it is {kin!r}."
        else:
            hint = f" Did you mean {near[0]!r}?" if near else colon_hint(name)
        raise ConfigError(
            f"algorithm.name must be one of {sorted(REGISTRY)} or an import path "
            f"'package.module:Class'; got {name!r}.{hint}"
        )
    return _load(REGISTRY[name])


def imports_only(modules: Collection[str] = ()) -> Callable[[str], type[AlgorithmConfig]]:
    """`algorithm_config_type` for those who read what others made.

    Of users' modules it imports those alone that the caller named, with all that lies below them;
    what is imported already runs nothing any more.
    """

    def config_type(name: str) -> type[AlgorithmConfig]:
        module = name.partition(":")[0]
        allowed = any(f"{module}.".startswith(f"{each}.") for each in modules)
        if ":" in name and not allowed and module not in sys.modules:
            raise ConfigError(
                f"algorithm.name {name!r} is code, and nothing is imported that only a file names. "
                f"Name its module if you trust it: modules=[{module!r}]."
            )
        return algorithm_config_type(name)

    return config_type


# Says how much is learned from what; see `Blueprint`.
_AMOUNT = {"rollouts": "updates_granted", "replay": "replay"}


def _load(path: str) -> type[AlgorithmConfig]:
    found = named(path, "algorithm.name")
    if not (isinstance(found, type) and issubclass(found, AlgorithmConfig)):
        raise ConfigError(
            f"algorithm.name {path!r} must name a subclass of fast_core.config.AlgorithmConfig; "
            f"got {found!r}."
        )
    # What a blueprint can't do without; the rest has defaults.
    needed = ("policy_fields", _AMOUNT[found.learns_from], "make_policy", "make_algorithm")
    missing = [name for name in needed if getattr(found, name) is getattr(AlgorithmConfig, name)]
    if missing:
        raise ConfigError(
            f"algorithm.name {path!r} lacks {', '.join(missing)}; fast_core.algorithm.Blueprint "
            "says what each must do, docs/adding-an-algorithm.md has an example."
        )
    return found
