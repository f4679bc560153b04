"""What FastLoop reads of a LightZero configuration, and what it refuses in one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fast_core.errors import ConfigError
from fast_core.integrations.options import check_flag, check_least, read_written_degree

Backend = Literal["process", "thread"]
_BACKENDS = ("process", "thread")

# Names that other asynchronous forms of LightZero have, with what is nearest to them here.
_ELSEWHERE = {
    "num_collector_actors": "num_collectors",
    "num_evaluator_actors": "enable_async_eval, there is one evaluator",
    "max_collect_inflight": "off_policy_degree",
    "max_policy_lag": "off_policy_degree, which counts collections, not updates",
    "max_train_chunk_steps": "weight_sync_interval, which counts collections, not updates",
}
_REFUSED = {
    "multi_gpu": "there is one learner, in one process. Leave multi_gpu out, or train with "
    "LightZero's own entry under its launcher",
    "eval_offline": "checkpoints are evaluated while training goes on. Leave eval_offline out and "
    "keep enable_async_eval",
    "use_wandb": "several processes would write to one run of W&B. Leave use_wandb out; the same "
    "figures are in TensorBoard's files in exp_name/log/serial, which `wandb sync` takes",
    "periodic_ckpt_keep_last": "all checkpoints are kept that the learner's hook writes. Leave it "
    "out, or have policy.learn.learner.hook.save_ckpt_after_iter write fewer",
    "resume_buffer_min_transitions": "a checkpoint is taken as where to begin, with counters at 0 "
    "and any buffer that is larger than a batch. Leave it out, or give random_collect_episode_num",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Keys of ``main_config.policy``, or keyword arguments of an entry, which win.

    Attributes:
        enable_async_training: Whether collecting goes on while the learner trains. False is
            LightZero's own loop, call for call.
        off_policy_degree: Collections that may be ahead of training; -1 or "auto" lets the run
            choose, 0 is one after the other.
        enable_async_eval: Whether both go on while an evaluation runs.
        data_queue_size: Collections of one collector that may wait to be trained on.
        num_collectors: Collectors, each with its own ``collector_env_num`` environments.
        weight_sync_interval: Collections trained on between two exchanges of weights.
        async_backend: Where collectors and evaluator are: processes, or threads of this one.
        enable_async_debug_log: Whether every step is told in the learner's log.
    """

    enable_async_training: bool = True
    off_policy_degree: int | Literal["auto"] = 1
    enable_async_eval: bool = True
    data_queue_size: int = 10
    num_collectors: int = 1
    weight_sync_interval: int = 1
    async_backend: Backend = "process"
    enable_async_debug_log: bool = False

    @property
    def is_own_loop(self) -> bool:
        """Whether everything is done in LightZero's own order, in one thread."""
        return not self.enable_async_training


def read_options(policy: Mapping[str, Any], changes: Mapping[str, Any]) -> Options:
    """The options of a configuration.

    Args:
        policy: ``main_config.policy``; a missing key means its default.
        changes: What was asked for beside it; None is nothing.

    Raises:
        ConfigError: A value is wrong, a name is nearly one of these or belongs to another
            asynchronous form, or the configuration asks for what can't be done.
    """
    known = {field.name: field for field in dataclasses.fields(Options)}
    for name in policy:
        _check_name(str(name), [*known])
    given = {name: policy[name] for name in known if name in policy}
    for name, value in changes.items():
        if name not in known:
            raise ConfigError(f"{name!r} is none of {', '.join(known)}")
        if value is not None:
            given[name] = value
    for name, value in given.items():
        given[name] = _checked(name, value, known[name].default)
    options = Options(**given)
    for name, instead in _REFUSED.items():
        if policy.get(name):
            raise ConfigError(f"policy.{name}={policy[name]!r} can't be followed: {instead}.")
    return options


def _check_name(name: str, known: list[str]) -> None:
    if name in known:
        return
    if name in _ELSEWHERE:
        raise ConfigError(f"policy.{name} is not known here; nearest is {_ELSEWHERE[name]}.")
    if near := difflib.get_close_matches(name, known, 1, 0.85):
        raise ConfigError(f"policy.{name} is not known; did you mean {near[0]!r}?")


def _checked(name: str, value: object, default: object) -> object:
    where = f"policy.{name} (or the argument)"
    if isinstance(default, bool):
        check_flag(where, value)
    elif name == "async_backend":
        if value not in _BACKENDS:
            raise ConfigError(f"{where} must be one of {', '.join(_BACKENDS)}; got {value!r}")
    elif name == "off_policy_degree":
        return read_written_degree(where, value)
    else:
        check_least((where, value, 1))
    return value
