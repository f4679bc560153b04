"""FastLoop inside GOPS: its trainers' names, objects and files, FastLoop's scheduling."""

from fast_core.integrations.gops.installation import install
from fast_core.integrations.gops.options import Options
from fast_core.integrations.gops.trainer import FastLoopTrainer

__all__ = ["FastLoopTrainer", "Options", "install"]
