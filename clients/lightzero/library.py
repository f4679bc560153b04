"""All that is taken of LightZero and DI-engine: their own objects, built as its entries do.

Nothing of them is changed, and nothing else here imports them, so that the rest can be tested with
stand-ins of the same form.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
from types import ModuleType
from typing import Any, Literal

import torch

from fast_core.errors import ConfigError

Its = Any  # an object of LightZero's, or one that stands in for it
Entry = Literal["train_muzero", "train_muzero_segment", "train_unizero", "train_unizero_segment"]
Part = Literal["collector", "evaluator"]

_BUFFERS = {
    "muzero": "MuZeroGameBuffer",
    "muzero_context": "MuZeroGameBuffer",
    "muzero_rnn_full_obs": "MuZeroGameBuffer",
    "efficientzero": "EfficientZeroGameBuffer",
    "sampled_efficientzero": "SampledEfficientZeroGameBuffer",
    "sampled_muzero": "SampledMuZeroGameBuffer",
    "gumbel_muzero": "GumbelMuZeroGameBuffer",
    "stochastic_muzero": "StochasticMuZeroGameBuffer",
}
_UNIZERO_BUFFERS = {"unizero": "UniZeroGameBuffer", "sampled_unizero": "SampledUniZeroGameBuffer"}
# What policies remember of how they collected, and tell among the figures of an update.
_TEMPERATURE, _EPSILON = "_collect_mcts_temperature", ("collect_epsilon", "_collect_epsilon")


_FRESH_EVERY = 20  # updates between two looks at what reanalysis in batches remembers


def entry_of(kind: str) -> Entry:
    """The entry for a policy's type where a configuration calls none."""
    return "train_unizero" if kind in _UNIZERO_BUFFERS else "train_muzero"


class LightZero:
    """The parts of one of its entries.

    Attributes:
        evaluates_first: Whether the entry evaluates the untrained policy.
        reanalyzes: Whether it has the buffer reanalyzed between updates.
    """

    def __init__(self, entry: Entry) -> None:
        """Of the entry of that name; nothing is imported yet."""
        self._is_unizero = entry.startswith("train_unizero")
        self._buffers = _UNIZERO_BUFFERS if self._is_unizero else _BUFFERS
        self.reanalyzes = entry.endswith("_segment")
        self.evaluates_first = not self.reanalyzes

    def compiled(self, main: Its, create: Its, seed: int) -> Its:
        """The whole configuration; makes the folder ``exp_name`` and writes it there.

        Raises:
            ConfigError: LightZero can't be imported, or the policy is none of this entry's.
        """
        config = imported("ding.config")
        kind = create.policy.type
        if kind not in self._buffers:
            raise ConfigError(
                f"create_config.policy.type={kind!r} has a loop of its own; this one trains "
                f"{', '.join(self._buffers)}. Train it with LightZero's own entry, or put its "
                "parts under fast_core.integrations.AsyncTrainer."
            )
        main = copy.deepcopy(main)
        if self._is_unizero:
            asked = main.policy.model.world_model_cfg.device
        else:
            asked = "cuda" if main.policy.get("cuda") else "cpu"
        main.policy.device = asked if torch.cuda.is_available() else "cpu"
        return config.compile_config(
            main, seed=seed, env=None, auto=True, create_cfg=create, save_cfg=True
        )

    def seed(self, cfg: Its, seed: int) -> None:
        """Seed Python, NumPy and torch in this process."""
        imported("ding.utils").set_pkg_seed(seed, use_cuda=cfg.policy.cuda)

    def environments(self, cfg: Its, part: Part, seed: int) -> Its:
        """Those of a part, with their manager."""
        envs = imported("ding.envs")
        settings = copy.deepcopy(cfg.env)  # it takes some out
        make, collecting, evaluating = envs.get_vec_env_setting(settings)
        configs = collecting if part == "collector" else evaluating
        found = envs.create_env_manager(
            cfg.env.manager, [functools.partial(make, cfg=each) for each in configs]
        )
        if part == "collector":
            found.seed(seed)
        else:
            found.seed(seed, dynamic_seed=False)
        return found

    def policy(self, cfg: Its, model: Its) -> Its:
        """One with a model of its own, or with ``model``; collecting uses what learning sets up."""
        fields = ["learn", "collect", "eval"]
        return imported("ding.policy").create_policy(cfg.policy, model=model, enable_field=fields)

    def load(self, cfg: Its, policy: Its, path: str) -> None:
        """Load a checkpoint into all of it."""
        policy.learn_mode.load_state_dict(torch.load(path, map_location=cfg.policy.device))

    def writer(self, cfg: Its) -> Its:
        """The one of TensorBoard's files."""
        return imported("tensorboardX").SummaryWriter(f"./{cfg.exp_name}/log/serial")

    def learner(self, cfg: Its, policy: Its, writer: Its) -> Its:
        """What trains, logs and saves."""
        make = imported("ding.worker").BaseLearner
        settings = cfg.policy.learn.learner
        return make(settings, policy.learn_mode, writer, exp_name=cfg.exp_name)

    def buffer(self, cfg: Its) -> Its:
        """The game buffer of the policy's kind."""
        return getattr(imported("lzero.mcts"), self._buffers[cfg.policy.type])(cfg.policy)

    def collector(self, cfg: Its, policy: Its, envs: Its, writer: Its, rank: int) -> Its:
        """The first has the name that it always had."""
        worker = imported("lzero.worker")
        make = worker.MuZeroSegmentCollector if self.reanalyzes else worker.MuZeroCollector
        return make(
            env=envs,
            policy=policy.collect_mode,
            tb_logger=writer,
            exp_name=cfg.exp_name,
            instance_name=f"collector_{rank}" if rank else "collector",
            policy_config=cfg.policy,
        )

    def evaluator(self, cfg: Its, policy: Its, envs: Its, writer: Its) -> Its:
        """What plays without exploration, and says stop at ``stop_value``."""
        return imported("lzero.worker").MuZeroEvaluator(
            eval_freq=cfg.policy.eval_freq,
            n_evaluator_episode=cfg.env.n_evaluator_episode,
            stop_value=cfg.env.stop_value,
            env=envs,
            policy=policy.eval_mode,
            tb_logger=writer,
            exp_name=cfg.exp_name,
            policy_config=cfg.policy,
        )

    def collect_at_random(self, cfg: Its, policy: Its, collector: Its, envs: Its) -> Its:
        """What ``random_collect_episode_num`` episodes of random play give."""
        taken = _Taken()
        imported("lzero.entry.utils").random_collect(
            cfg.policy,
            policy,
            imported("lzero.policy.random_policy").LightZeroRandomPolicy,
            collector,
            envs,
            taken,
        )
        return taken.data

    def collect_kwargs(self, cfg: Its, train_iter: int, envstep: int) -> dict[str, float]:
        """Temperature and epsilon of a collection that begins now."""
        policy = cfg.policy
        epsilon = 0.0
        if policy.eps.eps_greedy_exploration_in_collect:
            eps = policy.eps
            decayed = imported("ding.rl_utils").get_epsilon_greedy_fn(
                start=eps.start, end=eps.end, decay=eps.decay, type_=eps.type
            )
            epsilon = decayed(envstep)
        temperature = imported("lzero.policy").visit_count_temperature(
            policy.manual_temperature_decay,
            policy.fixed_temperature_value,
            policy.threshold_training_steps_for_final_temperature,
            trained_steps=train_iter,
        )
        return {"temperature": temperature, "epsilon": epsilon}

    def updates(self, cfg: Its, data: Its) -> int:
        """Updates that a collection grants, by `update_per_collect` or `replay_ratio`."""
        return int(imported("lzero.entry.utils").calculate_update_per_collect(cfg, data))

    def has_enough(self, cfg: Its, buffer: Its, envstep: int) -> bool:
        """Whether there is enough to train on."""
        policy = cfg.policy
        if not self._is_unizero:
            return bool(buffer.get_num_of_transitions() > policy.batch_size)
        by_episode = policy.sample_type == "episode"
        count = buffer.get_num_of_game_segments if by_episode else buffer.get_num_of_transitions
        return bool(envstep > policy.train_start_after_envsteps and count() > policy.batch_size)

    def reanalyzes_epoch(self, cfg: Its, epoch: int) -> bool:
        """Whether the buffer is reanalyzed before the updates of an epoch, a share below 1."""
        share = cfg.policy.buffer_reanalyze_freq
        if self._is_unizero:
            return epoch > 0 and epoch % int(1 / share) == 0
        return bool(epoch % (1 // share) == 0)

    def sample(self, cfg: Its, policy: Its, buffer: Its, number: int, train_iter: int) -> Its:
        """Batch ``number`` of an epoch, for update ``train_iter`` of all."""
        batch = buffer.sample(cfg.policy.batch_size, policy)
        if self._is_unizero:
            often = not self.reanalyzes and number % _FRESH_EVERY == 0
            if often and cfg.policy.reanalyze_ratio > 0:
                self.forget(policy)
            batch.append(train_iter)
        return batch

    def forget(self, policy: Its) -> None:
        """Drop what a policy has computed with weights that have changed since."""
        if self._is_unizero:
            policy.recompute_pos_emb_diff_and_clear_cache()

    def remember(self, policy: Its, temperature: float, epsilon: float) -> None:
        """Have a policy know how was collected with a copy of it; its learner logs floats alone."""
        setattr(policy, _TEMPERATURE, float(temperature))
        for name in _EPSILON:
            if hasattr(policy, name):
                setattr(policy, name, float(epsilon))

    def log_buffer(self, train_iter: int, buffer: Its, writer: Its) -> None:
        """Write what the buffer takes of memory and time."""
        utils = imported("lzero.entry.utils")
        utils.log_buffer_memory_usage(train_iter, buffer, writer)
        utils.log_buffer_run_time(train_iter, buffer, writer)

    def save(self, path: str, state: Its) -> None:
        """Save a checkpoint."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        imported("ding.utils").save_file(path, state)

    def set_threads(self, count: int) -> int:
        """Have torch compute with so many unless OMP_NUM_THREADS says it; returns how many before.

        With as many as there are cores in every process, processes would wait for each other
        inside each operation.
        """
        before = torch.get_num_threads()
        if not os.environ.get("OMP_NUM_THREADS"):
            torch.set_num_threads(count)
        return before


class _Taken:
    """A buffer that random play is pushed to, to be carried to the real one."""

    def __init__(self) -> None:
        self.data: Its = None

    def push_game_segments(self, data: Its) -> None:
        self.data = data

    def remove_oldest_data_to_fit(self) -> None:
        pass


def imported(name: str) -> ModuleType:
    """A module of LightZero's, or of what it needs.

    Raises:
        ConfigError: It can't be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"LightZero can't be used here: importing {name} raised {type(error).__name__}: "
            f"{error}. It needs an environment of its own; docs/lightzero.md has the commands "
            "that make one."
        ) from error
