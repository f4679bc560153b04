"""The configuration of a run: its types, which stand here, its files, rules and reference."""

from fast_core.config.environment_types import AtariConfig, EnvironmentConfig, WrapperConfig
from fast_core.config.node_types import (
    PAGE,
    EnvNodesConfig,
    ExtraNodeConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    PolicyNodesConfig,
    RestartsConfig,
    SupervisionConfig,
)
from fast_core.config.section import AlgorithmConfig, Count, Seconds, Section, Values
from fast_core.config.types import (
    DEFAULT_STEPS,
    CheckpointConfig,
    EvaluationConfig,
    MemoryConfig,
    Numbers,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
    StopConfig,
)
from fast_core.config.watching_types import (
    CallbackConfig,
    DashboardConfig,
    DiagnosticsConfig,
    MetricsConfig,
    SinkConfig,
)

__all__ = [
    "DEFAULT_STEPS",
    "PAGE",
    "AlgorithmConfig",
    "AtariConfig",
    "CallbackConfig",
    "CheckpointConfig",
    "Count",
    "DashboardConfig",
    "DiagnosticsConfig",
    "EnvNodesConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "ExtraNodeConfig",
    "MemoryConfig",
    "MetricsConfig",
    "NodesConfig",
    "Numbers",
    "OptimizerNodeConfig",
    "PolicyConfig",
    "PolicyNodesConfig",
    "ReplayConfig",
    "RestartsConfig",
    "RolloutConfig",
    "RunConfig",
    "SchedulerConfig",
    "Seconds",
    "Section",
    "SinkConfig",
    "StopConfig",
    "SupervisionConfig",
    "Values",
    "WrapperConfig",
]
