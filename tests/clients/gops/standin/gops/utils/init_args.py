"""What a script's arguments say of an environment, and the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ray
import torch

from gops.utils.common_utils import seed_everything


def init_args(env: Any, **args: Any) -> dict[str, Any]:
    serial = args["trainer"].endswith("serial_trainer")
    torch.set_num_threads(args.get("num_threads_main") or (4 if serial else 1))
    box = env.action_space
    args |= {
        "use_gpu": bool(args.get("enable_cuda")) and torch.cuda.is_available(),
        "obsv_dim": env.observation_space.shape[0],
        "action_type": "continu",
        "action_dim": box.shape[0],
        "action_high_limit": box.high,
        "action_low_limit": box.low,
        "seed": seed_everything(args.get("seed")),
    }
    folder = Path(args["save_folder"])
    for name in ("apprfunc", "evaluator"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(args, default=str, indent=4))
    args["additional_info"] = getattr(env, "additional_info", {})
    ray.init(address="local")
    return args
