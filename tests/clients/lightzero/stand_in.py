"""Stands in for LightZero: objects of the same form, which note what they are asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from fast_core.clients.lightzero.library import Entry, LightZero

Calls = list[tuple[Any, ...]]


def config(**policy: Any) -> Any:
    """What of a compiled configuration is read."""
    settings: dict[str, Any] = {
        "batch_size": 4,
        "eval_freq": 4,
        "use_priority": True,
        "update_per_collect": 2,
        "replay_ratio": 0.25,
        "random_collect_episode_num": 0,
        "buffer_reanalyze_freq": 0.5,
        "reanalyze_batch_size": 8,
        "reanalyze_partition": 1,
        "num_unroll_steps": 1,
        "stop_value": 10**6,
        "raises": "",
        "train_start_after_envsteps": 10,
        "sample_type": "transition",
        "reanalyze_ratio": 0.5,
        **policy,
    }
    return SimpleNamespace(policy=SimpleNamespace(**settings), seed=3, exp_name="run")


class Mode:
    """The learn, collect or eval mode of a policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def state_dict(self) -> dict[str, Any]:
        policy = self._policy
        return {"model": policy.model, "target_model": policy.model, "optimizer": policy.optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, each in state["model"].items():
            self._policy.model[name].copy_(each)


class Policy:
    """Its weight is how often it was trained."""

    def __init__(self) -> None:
        self.model, self.optimizer = {"w": torch.zeros(1)}, {"steps": 0}
        self._collect_mcts_temperature, self._collect_epsilon = 1, 0.0  # as EfficientZero's has it
        self.forgot = 0
        self.learn_mode = self.collect_mode = self.eval_mode = Mode(self)

    def recompute_pos_emb_diff_and_clear_cache(self) -> None:
        self.forgot += 1

    @property
    def version(self) -> int:
        return int(self.model["w"])


class Collector:
    """Every third collection has 3 steps, others 8."""

    def __init__(self, cfg: Any, policy: Policy, writer: Any, rank: int, calls: Calls) -> None:
        self.cfg, self.policy, self.writer, self.rank = cfg.policy, policy, writer, rank
        self.envstep, self.count, self.calls, self.closed = 0, 0, calls, False

    def collect(self, train_iter: int = 0, policy_kwargs: Any = None) -> Any:
        self.calls.append(("collect", train_iter, policy_kwargs, self.envstep))
        if policy_kwargs != "random":
            self.policy._collect_mcts_temperature = policy_kwargs["temperature"]
            self.policy._collect_epsilon = policy_kwargs["epsilon"]
        if self.cfg.raises == "collector" and self.count == 2:
            raise ZeroDivisionError("the third one")
        steps = 3 if self.count % 3 == 2 else 8
        self.count += 1
        self.envstep += steps
        self.writer.add_scalar("collector/envstep", self.envstep, train_iter)
        return [[(self.rank, self.policy.version)] * steps], [{"done": True}]

    def close(self) -> None:
        self.closed = True


class Buffer:
    def __init__(self, cfg: Any, calls: Calls) -> None:
        self.rows: list[Any] = []
        self.calls, self.cfg = calls, cfg.policy

    def push_game_segments(self, data: Any) -> None:
        self.calls.append(("push", len(data[0][0])))
        self.rows += data[0][0]

    def remove_oldest_data_to_fit(self) -> None:
        self.calls.append(("trim",))

    def get_num_of_transitions(self) -> int:
        return len(self.rows)

    def sample(self, batch_size: int, policy: Policy) -> Any:
        self.calls.append(("sample", batch_size, policy.version))
        return self.rows[-batch_size:]

    def reanalyze_buffer(self, batch_size: int, policy: Policy) -> None:
        self.calls.append(("reanalyze", batch_size, policy.version))

    def update_priority(self, batch: Any, priorities: Any) -> None:
        self.calls.append(("priority", len(batch), priorities))


class Learner:
    def __init__(self, policy: Policy, calls: Calls) -> None:
        self.policy, self.calls, self.train_iter = policy, calls, 0
        self.batches: list[Any] = []
        self.said: list[str] = []

    def call_hook(self, name: str) -> None:
        self.calls.append(("hook", name))

    def train(self, batch: Any, envstep: int) -> Any:
        how = self.policy._collect_mcts_temperature, self.policy._collect_epsilon
        assert all(type(each) is float for each in how), "its log takes nothing else"
        self.calls.append(("train", envstep, *how, self.policy.forgot))
        self.batches.append(batch)
        self.policy.model["w"] += 1
        self.policy.optimizer["steps"] += 1
        self.train_iter += 1
        return [{"value_priority_orig": self.train_iter}]

    def save_checkpoint(self, name: str) -> None:
        self.calls.append(("save", name, self.policy.version))

    def info(self, text: str) -> None:
        self.said.append(text)


class Evaluator:
    """Scores its policy's version."""

    def __init__(self, cfg: Any, policy: Policy, writer: Any, calls: Calls) -> None:
        self.cfg, self.policy, self.writer, self.calls = cfg.policy, policy, writer, calls
        self.last, self.best, self.closed = 0, -1, False

    def should_eval(self, train_iter: int) -> bool:
        if train_iter == self.last or train_iter - self.last < self.cfg.eval_freq:
            return False
        self.last = train_iter
        return True

    def eval(self, save: Any, train_iter: int, envstep: int) -> tuple[bool, Any]:
        score = self.policy.version
        self.calls.append(("eval", train_iter, envstep, score))
        self.writer.add_scalar("evaluator/score", score, train_iter)
        if score > self.best:
            self.best = score
            save("ckpt_best.pth.tar")
        return score >= self.cfg.stop_value, {"score": score}

    def close(self) -> None:
        self.closed = True


class Writer:
    def __init__(self) -> None:
        self.scalars: list[tuple[Any, ...]] = []

    def add_scalar(self, *arguments: Any) -> None:
        self.scalars.append(arguments)


class StandIn(LightZero):
    """With objects of here."""

    def __init__(self, entry: Entry = "train_muzero") -> None:
        super().__init__(entry)
        self.calls: Calls = []
        self.threads: list[int] = []
        self.saved: list[tuple[str, Any]] = []
        self.made: dict[str, Any] = {}

    def compiled(self, main: Any, create: Any, seed: int) -> Any:
        cfg = config(**{k: v for k, v in main.policy.items() if k != "type"})
        cfg.seed = seed
        return cfg

    def seed(self, cfg: Any, seed: int) -> None:
        pass

    def environments(self, cfg: Any, part: str, seed: int) -> Any:
        return None

    def policy(self, cfg: Any, model: Any) -> Policy:
        return Policy()

    def load(self, cfg: Any, policy: Policy, path: str) -> None:
        self.calls.append(("load", path))

    def _keep(self, name: str, made: Any) -> Any:
        self.made[name] = made
        return made

    def writer(self, cfg: Any) -> Any:
        return self._keep("writer", Writer())

    def learner(self, cfg: Any, policy: Policy, writer: Any) -> Any:
        return self._keep("learner", Learner(policy, self.calls))

    def buffer(self, cfg: Any) -> Any:
        return self._keep("buffer", Buffer(cfg, self.calls))

    def collector(self, cfg: Any, policy: Policy, envs: Any, writer: Any, rank: int) -> Any:
        return self._keep(f"collector_{rank}", Collector(cfg, policy, writer, rank, self.calls))

    def evaluator(self, cfg: Any, policy: Policy, envs: Any, writer: Any) -> Any:
        return self._keep("evaluator", Evaluator(cfg, policy, writer, self.calls))

    def collect_at_random(self, cfg: Any, policy: Policy, collector: Any, envs: Any) -> Any:
        return collector.collect(0, "random")

    def collect_kwargs(self, cfg: Any, train_iter: int, envstep: int) -> Any:
        return {"temperature": 1 / (1 + train_iter), "epsilon": float(envstep)}

    def updates(self, cfg: Any, data: Any) -> int:
        fixed = cfg.policy.update_per_collect
        return int(len(data[0][0]) * cfg.policy.replay_ratio) if fixed is None else fixed

    def log_buffer(self, train_iter: int, buffer: Any, writer: Any) -> None:
        self.calls.append(("log_buffer", train_iter, len(buffer.rows)))

    def save(self, path: str, state: Any) -> None:
        self.saved.append((path, state))

    def set_threads(self, count: int) -> int:
        self.threads.append(count)
        return 7
