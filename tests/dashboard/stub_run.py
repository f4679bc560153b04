"""A run that was never trained: what the page is told of it moves with the time."""

from __future__ import annotations

import io
import math
import time
from typing import Any

from PIL import Image, ImageDraw

NODES = ("env-0", "env-1", "optimizer-0", "evaluator-0", "metrics-0", "dashboard-0")
CYCLES = {
    "env": ("stepping", "stepping", "acting", "waiting"),
    "optimizer": ("waiting", "learning", "learning", "publishing"),
    "evaluator": ("waiting", "evaluating", "evaluating", "waiting"),
    "metrics": ("waiting", "waiting", "writing"),
    "dashboard": ("waiting",),
}
SHARES = {"env": 0.2, "optimizer": 0.35, "evaluator": 0.6, "metrics": 0.97, "dashboard": 0.9}


def picture(tile: int, at: float, size: tuple[int, int] = (300, 200)) -> Image.Image:
    """Something like a cart with a pole; the colour of its top left corner tells the time."""
    width, height = size
    image = Image.new("RGB", size, (255, 255, 255))
    draw = ImageDraw.Draw(image)
    draw.line((0, height * 0.75, width, height * 0.75), (60, 60, 60))
    x = width * (0.5 + 0.3 * math.sin(at * 0.7 + tile))
    angle = 0.4 * math.sin(at * 2.3 + 2 * tile)
    draw.rectangle((x - 24, height * 0.72, x + 24, height * 0.78), (20, 20, 20))
    tip = (x + 80 * math.sin(angle), height * 0.73 - 80 * math.cos(angle))
    draw.line((x, height * 0.73, *tip), (202, 152, 101), 8)
    return image


def observation(tile: int, at: float) -> Image.Image:
    """Four numbers as a strip of bars."""
    image = Image.new("RGB", (256, 64), (24, 28, 34))
    draw = ImageDraw.Draw(image)
    for place in range(4):
        value = math.sin(at * (place + 1) * 0.6 + tile)
        draw.rectangle(
            (place * 64 + 8, 32 - max(value, 0) * 28, place * 64 + 56, 32 - min(value, 0) * 28),
            (90, 162, 245) if value > 0 else (224, 164, 82),
        )
    return image


def encoded(image: Image.Image, kind: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG" if kind == 1 else "PNG")
    return out.getvalue()


class Run:
    """A made-up run.

    Attributes:
        notes: Note of each tile that has one.
        blind: Tiles of which there are no pictures.
        written: The text of each tile that shows one.
        outcome: How it ended; None while it goes on.
        directory: Where it lies.
        cycles: What nodes do, one state after the other, by kind of node.
    """

    def __init__(self, tiles: int = 8, evaluation: bool = True, past: int = 300) -> None:
        self.began = time.monotonic()
        self.count = tiles
        self.evaluation = evaluation
        self.past = past
        self.notes: dict[int, str] = {}
        self.blind: set[int] = set()
        self.written: dict[int, str] = {}
        self.outcome: str | None = None
        self.frames = True
        self.replay = False
        self.events: list[dict[str, Any]] = []
        self.directory = "runs/ppo_cartpole/2026-11-28_seed7"
        self.cycles = CYCLES

    @property
    def at(self) -> float:
        return self.past + time.monotonic() - self.began

    def hello(self) -> dict[str, Any]:
        tiles = [
            {"tile": n, "shard": n % 4, "env": n // 4, "node": f"env-{n % 2}", "kind": "training"}
            for n in range(self.count)
        ]
        if self.evaluation:
            last = {"tile": self.count, "shard": -1, "env": 0, "node": "evaluator-0"}
            tiles.append({**last, "kind": "evaluation"})
        why = "The run was started without --dashboard. To see frames: `fastloop stop runs/x`."
        return {
            "type": "hello",
            "version": 1,
            "run": {
                "name": "ppo_cartpole",
                "seed": 7,
                "algorithm": "ppo",
                "environment": "CartPole-v1",
                "directory": self.directory,
                "mode": "process",
                "running": self.outcome is None,
                "outcome": self.outcome,
            },
            "tiles": tiles,
            "fps": 5,
            "frames": self.frames,
            "why_no_frames": "" if self.frames else why,
            "history": self.history(),
        }

    def history(self) -> dict[str, Any]:
        last = int(self.at)
        kinds = {
            "train": [self.train(second) for second in range(last)],
            "evaluation": [self.evaluated(second) for second in range(10, last, 20)],
        }
        return {
            kind: {name: [row[name] for row in rows] for name in rows[0]}
            for kind, rows in kinds.items()
            if rows
        }

    def reward(self, second: float) -> float:
        return 480 / (1 + math.exp(-(second - 120) / 40))

    def train(self, second: int) -> dict[str, float | None]:
        wave = math.sin(second / 9)
        last = max(self.reward(second) + 60 * math.sin(second * 12.9898), 9.0)
        row: dict[str, float | None] = {
            "env_steps": second * 2048,
            "updates": second * 32,
            "time_s": float(second),
            "rollout/return_mean": self.reward(second - 50),
            "rollout/return_mean_50": self.reward(second - 25),
            "rollout/return_mean_10": self.reward(second - 5) + 20 * math.sin(second / 3),
            "rollout/return_last": last,
            "rollout/length_mean": self.reward(second - 50),
            "rollout/length_last": last,
            "train/policy_loss": -0.01 + 0.004 * wave,
            "train/value_loss": 40 * math.exp(-second / 120) + 3 + wave,
            "time/env_steps_per_s": 2048 + 200 * wave,
            "time/updates_per_s": 32 + 3 * wave,
            "time/collecting_s": second * 0.8,
            "time/collecting_waits_s": second * 0.2,
            "time/training_s": second * 0.65,
            "time/training_waits_s": second * 0.35,
            "scheduler/lag_beyond_round": 16 + 4 * wave,
            "scheduler/lag_beyond_max": 32.0,
        }
        if self.replay:
            row["replay/updates_per_env_step"] = 0.25
        return row

    def evaluated(self, second: int) -> dict[str, float]:
        mean = self.reward(second)
        return {
            "env_steps": second * 2048,
            "updates": second * 32,
            "time_s": float(second),
            "eval/return_mean": mean,
            "eval/return_std": 20 + 0.1 * (500 - mean),
            "evaluation/windy/return_mean": 0.7 * mean,
            "evaluation/windy/return_std": 30.0,
        }

    def now(self) -> dict[str, Any]:
        at = self.at
        over = self.outcome is not None
        return {
            "type": "now",
            "phase": "training",
            "elapsed_s": at,
            "env_steps": int(at * 2048),
            "updates": int(at * 32),
            "rates": {"env_steps_per_s": 2048.0, "updates_per_s": 32.0},
            "async": {
                "degree": 2,
                "admitted": int(at * 8) + 2,
                "merged": int(at * 8),
                "trained": int(at * 8) - 1,
                "lag_mean": 16.4,
                "lag_max": 32,
            },
            "best_tile": 2 if self.count > 2 else 0,
            "nodes": [] if over else [self.node(name, at) for name in NODES],
            "tiles": [self.tile(n, at) for n in range(self.count + self.evaluation)],
        }

    def node(self, name: str, at: float) -> dict[str, Any]:
        kind = name.split("-")[0]
        cycle = self.cycles[kind]
        place = int(at * 1.7 + len(name) + int(name[-1])) % len(cycle)
        waits = SHARES[kind] + 0.05 * math.sin(at)
        return {"name": name, "state": cycle[place], "waiting_share": waits}

    def tile(self, n: int, at: float) -> dict[str, Any]:
        if n in self.blind and n not in self.notes:
            keys = ("R", "S", "episode", "version", "seed")
            blank = dict.fromkeys(keys)
            return {"tile": n, **blank, "state": "restarting", "fps": 0.0, "note": ""}
        steps = int(at * 50 + 37 * n) % 500
        states = {4: "waiting for policy", 5: "restarting"} if self.count > 5 else {}
        return {
            "tile": n,
            "R": float(steps),
            "S": steps,
            "episode": int(at / 10) + n,
            "version": int(at * 32),
            "seed": 1_837_465_102 + n,
            "state": states.get(n, "running"),
            "fps": 5.0,
            "note": self.notes.get(n, ""),
        }

    def insight(self, tile: int) -> dict[str, Any]:
        at = self.at
        left = 0.5 + 0.4 * math.sin(at * 1.3)
        return {
            "type": "insight",
            "tile": tile,
            "at": self.tile(tile, at)["S"] or 0,
            "value": 60 + 30 * math.sin(at / 3),
            "probabilities": [left, 1 - left],
            "q": [20 + 5 * math.sin(at), 21 + 4 * math.cos(at)],
            "actions": ["left", "right"],
        }
