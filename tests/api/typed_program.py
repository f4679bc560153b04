"""A user's program, which mypy checks together with FastLoop (pyproject.toml); it never runs."""

from __future__ import annotations

import functools

import gymnasium

from fast_core import Config, Result, Run, RunFailed, RunInterrupted, make_env, train


def make(gain: float) -> gymnasium.Env[object, object]:
    return gymnasium.make("CartPole-v1", gain=gain)


def program() -> float:
    config = Config({"name": "x", "environment": functools.partial(make, 2.0)}, seed=1)
    id: str = config.changed({"seed": 2}).environment.id
    env = make_env(config, seed=len(id), frame_stack=2)
    env.reset()
    try:
        result: Result = train(config, {"stop.env_steps": 10}, mode="inline")
    except RunFailed as error:
        print(error.directory / "logs", Run(error.directory).crash)
    except RunInterrupted as error:
        print(error.result and error.result.env_steps + 1)
    else:
        result = result.run.resume(["stop.env_steps=20"])
        steps: int = result.run.metrics["env_steps"].max()
        return steps if result.best is None else result.best.mean
    return 0.0
