"""FastLoop inside GOPS: its trainers' names, objects and files, FastLoop's scheduling."""

from fast_core.clients.gops.installation import install
from fast_core.clients.gops.options import Options
from fast_core.clients.gops.trainer import FastLoopTrainer

__all__ = ["FastLoopTrainer", "Options", "install"]
