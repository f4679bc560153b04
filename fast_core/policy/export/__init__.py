"""Policies for elsewhere: ONNX, torch.export, TorchScript and plain C, checked as they are written.

Importing this imports no torch; `export` does.
"""

from fast_core.policy.export.exporting import Exported, check_target, export, write

__all__ = ["Exported", "check_target", "export", "write"]
