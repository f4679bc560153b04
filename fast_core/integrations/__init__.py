"""FastLoop's scheduling for loops that are written already: wrap what you have."""

from fast_core.integrations.coordinator import Coordinator
from fast_core.integrations.hosts import Weights
from fast_core.integrations.statistics import Statistics
from fast_core.integrations.trainer import AsyncTrainer, Result

__all__ = ["AsyncTrainer", "Coordinator", "Result", "Statistics", "Weights"]
