from __future__ import annotations

import msgspec
import pytest

from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import (
    AtariConfig,
    EnvironmentConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    RunConfig,
)
from fast_core.launcher.process_mode import preloaded
from tests.nodes.stage import make_config

PONG = EnvironmentConfig(id="ALE/Pong-v5", atari=AtariConfig())


def config(environment: EnvironmentConfig | None = None, **policy: object) -> RunConfig:
    network = str(policy.pop("network", "auto"))
    made = make_config(policy=PolicyConfig(**policy))  # type: ignore[arg-type]
    algorithm = PPOConfig(name="ppo", network=network)  # type: ignore[arg-type]
    made = msgspec.structs.replace(made, algorithm=algorithm)
    return made if environment is None else msgspec.structs.replace(made, environment=environment)


def learning(backend: str, count: int) -> RunConfig:
    """From replay, with so many optimizers."""
    nodes = NodesConfig(optimizer=OptimizerNodeConfig(count=count))
    return make_config(algorithm=SACConfig(backend=backend), nodes=nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "shared"),
    [
        (config(), False),
        (config(backend="torch"), True),
        (config(precision="bf16"), True),
        (config(network="nature_cnn"), True),
        (config(PONG), True),
        (config(PONG, network="mlp"), False),
        (config(PONG, backend="numpy"), False),
        (learning("torch", 1), False),
        (learning("torch", 2), True),
        (learning("numpy", 2), False),
    ],
)
def test_torch_is_imported_once_where_all_that_act_need_it(given: RunConfig, shared: bool) -> None:
    """Otherwise each of them would import it for itself: 200 MB a process."""
    assert ("torch" in preloaded(given)) == shared
