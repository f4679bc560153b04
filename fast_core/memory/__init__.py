"""Shared memory: segments, their layout, and the structures that nodes exchange data through.

Every word has one writing node at a time (the doorbell's fetch-add apart). There is no mutex and
no compare-and-swap, so a process that dies at any instruction stops nobody else; each structure
says in its ``Concurrency:`` section who writes what and what a death leaves.
"""

try:
    from fast_core.memory import _native as _native
except ImportError as error:
    raise ImportError(
        "fast_core.memory needs its compiled core, and there is none for this Python. "
        "Run `python setup.py build_ext --inplace` in the checkout, or `pip install .` "
        f"(either needs a C++17 compiler). The import said: {error}"
    ) from error

from fast_core.memory.arena import Arena, Layout
from fast_core.memory.available import MemoryAvailable, memory_available
from fast_core.memory.doorbell import Doorbell
from fast_core.memory.kept_priorities import KeptPriorities
from fast_core.memory.log_snapshot import LogRestore, LogSnapshot
from fast_core.memory.mailbox import Mailbox
from fast_core.memory.mirroring import Carrier, carrier_of
from fast_core.memory.priorities import PriorityTree, beta_at
from fast_core.memory.pulse import PULSE_PERIOD_S, Pulse
from fast_core.memory.replay import (
    DrawnArrays,
    ReplayArrays,
    ReplayReader,
    SequenceArrays,
    batch_columns,
    drawn_arrays,
)
from fast_core.memory.replay_log import ReplayFields, ReplayLog, replay_fields, reserve_of
from fast_core.memory.ring import Ring
from fast_core.memory.rollout import RolloutSlot, RolloutStore
from fast_core.memory.segment import Segment, segment_name
from fast_core.memory.shared import ACTOR, ANYONE, EXECUTOR, STAGES, Shared, Structure
from fast_core.memory.side_columns import NEVER, SideColumns
from fast_core.memory.stats import STATS_WORDS, StatsColumn, StatsRow, Trace
from fast_core.memory.weights import EvaluationSlot, WeightBoard

__all__ = [
    "ACTOR",
    "ANYONE",
    "EXECUTOR",
    "NEVER",
    "PULSE_PERIOD_S",
    "STAGES",
    "STATS_WORDS",
    "Arena",
    "Carrier",
    "Doorbell",
    "DrawnArrays",
    "EvaluationSlot",
    "KeptPriorities",
    "Layout",
    "LogRestore",
    "LogSnapshot",
    "Mailbox",
    "MemoryAvailable",
    "PriorityTree",
    "Pulse",
    "ReplayArrays",
    "ReplayFields",
    "ReplayLog",
    "ReplayReader",
    "Ring",
    "RolloutSlot",
    "RolloutStore",
    "Segment",
    "SequenceArrays",
    "Shared",
    "SideColumns",
    "StatsColumn",
    "StatsRow",
    "Structure",
    "Trace",
    "WeightBoard",
    "batch_columns",
    "beta_at",
    "carrier_of",
    "drawn_arrays",
    "memory_available",
    "replay_fields",
    "reserve_of",
    "segment_name",
]
