"""What was probably meant by a key that there isn't, or by an override that is none."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Sequence

from fast_core.config import RunConfig
from fast_core.config.schema import keys, paths

_LISTED = 12  # keys of a group that a message names

# What Stable-Baselines3, CleanRL, RLlib and others call it; of several keys the first that there
# is with the algorithm.
ELSEWHERE = {
    "anneal_lr": ["algorithm.learning_rate_schedule"],
    "batch_size": ["algorithm.batch_size", "algorithm.minibatch_size"],
    "buffer_size": ["replay.capacity"],
    "clip_coef": ["algorithm.clip_epsilon"],
    "clip_range": ["algorithm.clip_epsilon"],
    "cuda": ["nodes.optimizer.device"],
    "device": ["nodes.optimizer.device"],
    "ent_coef": ["algorithm.entropy_coef", "algorithm.temperature"],
    "entropy_coeff": ["algorithm.entropy_coef", "algorithm.temperature"],
    "env": ["environment.id"],
    "env_id": ["environment.id"],
    "env_kwargs": ["environment.kwargs"],
    "env_name": ["environment.id"],
    "eval_freq": ["evaluation.every_env_steps"],
    "gym_id": ["environment.id"],
    "lambda": ["algorithm.gae_lambda"],
    "lr": ["algorithm.learning_rate"],
    "max_steps": ["stop.env_steps"],
    "max_timesteps": ["stop.env_steps"],
    "mini_batch_size": ["algorithm.minibatch_size", "algorithm.batch_size"],
    "n_envs": ["rollout.envs_per_shard"],
    "n_epochs": ["algorithm.epochs"],
    "n_steps": ["rollout.steps"],
    "net_arch": ["algorithm.hidden_sizes"],
    "num_envs": ["rollout.envs_per_shard"],
    "num_epochs": ["algorithm.epochs"],
    "num_sgd_iter": ["algorithm.epochs"],
    "num_steps": ["rollout.steps"],
    "num_workers": ["nodes.env.count"],
    "policy_kwargs": ["algorithm.hidden_sizes"],
    "rollout_fragment_length": ["rollout.steps"],
    "tau": ["algorithm.target_rate"],
    "timesteps": ["stop.env_steps"],
    "total_timesteps": ["stop.env_steps"],
    "train_batch_size": ["algorithm.batch_size", "algorithm.minibatch_size"],
    "update_epochs": ["algorithm.epochs"],
    "vf_coef": ["algorithm.value_coef"],
}


def key_meant(
    name: str, group: str, siblings: Sequence[str], known: Collection[str], algorithm: str = ""
) -> str:
    """What to write in place of a key that a group has not.

    Args:
        name: The key.
        group: Path of the group; empty for the top level.
        siblings: Keys that it has.
        known: Paths of all keys that there are.
        algorithm: Which one's keys those of the group are.
    """
    inside = f"{group}." if group else ""
    elsewhere = [path for path in ELSEWHERE.get(name.lower(), ()) if path in known]
    elsewhere += [path for path in known if path.rpartition(".")[2] == name]
    near = difflib.get_close_matches(name, siblings, n=1)
    if elsewhere and (not near or name.lower() in ELSEWHERE):
        return f"Did you mean {elsewhere[0]}?"
    if near:
        return f"Did you mean {inside}{near[0]}?"
    if len(siblings) <= _LISTED:
        return f"{group or 'The top level'} has: {', '.join(siblings)}."
    return f"`fastloop config explain {algorithm or group}".rstrip() + "` lists those there are."


def override_meant(overrides: Sequence[str], index: int) -> str:
    """What to write in place of an override without a value, or without a key."""
    word, following = overrides[index], [*overrides[index + 1 :], ""]
    if following[0] == "=":
        del following[0]
    quoted = _cut_by_spaces(overrides, index)
    if quoted:
        return f"What holds spaces has to be quoted: {shlex.quote(quoted)}"
    for sign in ("=", ":", ""):
        key, found, value = word.partition(sign) if sign else (word, "", "")
        value = value or following[0]
        if found == sign and _is_key(key) and value and "=" not in value:
            return f"Did you mean {shlex.quote(f'{key}={value}')}?"
    if word.endswith("="):
        return f"Write {word}null for nothing and {word}'\"\"' for empty text."
    return "Such as seed=1, or algorithm.learning_rate=1e-4."


def _cut_by_spaces(overrides: Sequence[str], index: int) -> str:
    """The override that the shell has cut into several, of which one is that at ``index``."""
    for first in range(index, -1, -1):
        if "=" in overrides[first]:
            for last in range(index + 1, len(overrides) + 1):
                whole = " ".join(overrides[first:last])
                value = whole.partition("=")[2]
                opened = [value.count(sign) for sign in "[{"]
                if any(opened) and opened == [value.count(sign) for sign in "]}"]:
                    return whole
            return ""
    return ""


def _is_key(path: str) -> bool:
    first, _, rest = path.partition(".")
    return path in paths(RunConfig) or (bool(rest) and first in keys(RunConfig))
