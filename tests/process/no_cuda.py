"""Importing this module turns every use of CUDA into an error: for the fork server and its nodes.

A process that has asked the driver anything hands a broken CUDA to what is forked from it.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import torch

SERVER = os.getpid()


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("CUDA was initialised in a run on the CPU")


def _refuse_in_server(*_: Any, **__: Any) -> int:
    if os.getpid() == SERVER:
        raise AssertionError("CUDA was asked for before nodes were forked")
    return 0


torch.cuda._lazy_init = _refuse
torch.cuda.init = _refuse
torch.cuda.device_count = _refuse_in_server
torch.cuda.is_available = lambda: bool(_refuse_in_server())
