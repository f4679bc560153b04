"""The evaluator: an actor of Ray, whatever the trainer."""

from __future__ import annotations

from typing import Any

import ray

from gops.trainer.evaluator import Evaluator


def create_evaluator(evaluator_name: str, **kwargs: Any) -> Any:
    return ray.remote(num_cpus=1)(Evaluator).remote(**kwargs)
