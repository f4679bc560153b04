"""Checks for parts of your own: an algorithm, a node, an environment, a kind of shared memory.

Each says in one sentence what does not hold, what was seen, and what to do. FastLoop's own parts
are tested by the same checks. For tests only: nothing else imports this package.
"""

from fast_core.errors import ContractBroken
from fast_core.testing.algorithm import check_algorithm
from fast_core.testing.environment import check_environment
from fast_core.testing.memory_kind import check_memory_kind
from fast_core.testing.node import check_node

__all__ = [
    "ContractBroken",
    "check_algorithm",
    "check_environment",
    "check_memory_kind",
    "check_node",
]
