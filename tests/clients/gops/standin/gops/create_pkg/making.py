"""What is made here, and what by actors of Ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def make(creator: Callable[..., Any], count: str, **kwargs: Any) -> Any:
    """An object, or for parallel trainers a list of as many actors as the script asks for."""
    if kwargs["trainer"].endswith("serial_trainer"):
        return creator(**kwargs)
    import ray

    return [
        ray.remote(num_cpus=1)(creator).remote(index=rank, **kwargs)
        for rank in range(kwargs[count])
    ]
