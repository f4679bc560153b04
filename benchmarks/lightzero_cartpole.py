"""LightZero's CartPole MuZero, trained once; `benchmarks.lightzero` runs it.

    LIGHTZERO_PYTHON -m benchmarks.lightzero_cartpole serial|async [--step-ms MS] ...

Needs LightZero. Prints one JSON object: what was collected and trained between the first and the
last push to the game buffer, and how long that took.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from typing import Any

from zoo.classic_control.cartpole.config.cartpole_muzero_config import create_config, main_config


def configured(asked: argparse.Namespace) -> list[Any]:
    """The zoo's configuration, changed where it was asked for."""
    main, create = copy.deepcopy(main_config), copy.deepcopy(create_config)
    main.exp_name = "cartpole"
    main.env.step_ms = asked.step_ms
    main.policy.update(
        cuda=False,
        num_simulations=asked.simulations,
        batch_size=asked.batch_size,
        update_per_collect=None,
        replay_ratio=asked.replay_ratio,
        eval_freq=10**9,
    )
    create.env.update(type="slow_cartpole", import_names=["benchmarks.lightzero_env"])
    create.env_manager.type = "base"
    return [main, create]


class Watch:
    """Notes in this process what reaches the game buffer, and when; updates likewise.

    An update waits besides, as one does for an accelerator.
    """

    def __init__(self, update_s: float) -> None:
        from lzero.mcts import MuZeroGameBuffer
        from lzero.policy.muzero import MuZeroPolicy

        self.pushes: list[tuple[float, int, int]] = []
        self.updates = 0
        push, learn = MuZeroGameBuffer.push_game_segments, MuZeroPolicy._forward_learn

        def pushed(buffer: Any, data: Any) -> Any:
            push(buffer, data)
            env_steps = buffer.get_num_of_transitions()
            self.pushes.append((time.monotonic(), env_steps, self.updates))

        def learned(policy: Any, data: Any) -> Any:
            self.updates += 1
            time.sleep(update_s)
            return learn(policy, data)

        MuZeroGameBuffer.push_game_segments = pushed
        MuZeroPolicy._forward_learn = learned

    def found(self) -> dict[str, float]:
        """Between the first push and the last."""
        first, last = self.pushes[0], self.pushes[-1]
        steps, elapsed_s = last[1] - first[1], last[0] - first[0]
        return {
            "rounds": len(self.pushes) - 1,
            "env_steps": steps,
            "updates": last[2] - first[2],
            "elapsed_s": elapsed_s,
            "env_steps_per_s": steps / elapsed_s,
        }


def overlap(stats: Any) -> float:
    """The time that the slower side needs, and the other's share of one round, of what passed."""
    rounds = stats.rounds_trained
    collecting_s, training_s = stats.collecting_s, stats.training_s
    ideal_s = max(collecting_s + training_s / rounds, training_s + collecting_s / rounds)
    return float(ideal_s / (training_s + stats.training_waits_s))


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["serial", "async"])
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--update-ms", type=float, default=0.0)
    parser.add_argument("--simulations", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--replay-ratio", type=float, default=0.05)
    parser.add_argument("--env-steps", type=int, default=1_000)
    asked = parser.parse_args()
    watch, further = Watch(asked.update_ms / 1e3), dict[str, float]()
    config = configured(asked)
    if asked.how == "serial":
        from lzero.entry import train_muzero

        train_muzero(config, seed=0, max_env_step=asked.env_steps)
    else:
        import fast_core.clients.lightzero as fl
        from fast_core.clients.lightzero import run

        told = run.summary

        def summary(result: Any) -> str:
            stats = result.stats
            further.update(overlap=overlap(stats), lag_max=stats.lag_max)
            further.update(collecting_s=stats.collecting_s, training_s=stats.training_s)
            return told(result)

        run.summary = summary
        fl.train_muzero(config, seed=0, max_env_step=asked.env_steps)
    print(json.dumps({**watch.found(), **further}))


if __name__ == "__main__":
    main()
