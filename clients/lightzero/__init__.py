"""LightZero's training with collecting and evaluating beside it; LightZero itself is unchanged.

    import fast_core.clients.lightzero as fl
    fl.train_muzero([main_config, create_config], seed=0, max_env_step=int(1e5))

or `fastloop lightzero CONFIG.py`, for a configuration that calls LightZero's entry itself.
"""

from fast_core.clients.lightzero.entry import (
    install,
    train_muzero,
    train_muzero_segment,
    train_unizero,
    train_unizero_segment,
)
from fast_core.clients.lightzero.options import Options

__all__ = [
    "Options",
    "install",
    "train_muzero",
    "train_muzero_segment",
    "train_unizero",
    "train_unizero_segment",
]
