"""An algorithm that does not keep the contract is refused, by a sentence for each fault."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from fast_core.algorithm import (
    ActionOutput,
    LearnerSetup,
    ReplaySpec,
    SequenceBatch,
    UpdateReport,
    Window,
)
from fast_core.algorithm.spec import Column, FieldSpec
from fast_core.algos.replay.sac import SAC
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError, ContractBroken
from fast_core.testing import check_algorithm

SETUP = LearnerSetup(seed=0, shards=2, envs_per_shard=2, steps=4)


class LinearConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """Linear in what it sees; `fault` says what it does wrong."""

    fault: str = ""
    size: int = 3

    def check(self, environment: Any, setup: LearnerSetup) -> None:
        if environment.action.kind != "discrete" or self.fault == "refuses":
            raise ConfigError("choices only")

    def policy_fields(self, environment: Any) -> tuple[FieldSpec, ...]:
        return (FieldSpec("weight", (5, environment.action.n), "float32"),)

    def updates_granted(self, rows: int) -> int:
        return 1

    def make_policy(self, environment: Any, setup: Any) -> Any:
        return LinearPolicy(environment, self.fault)

    def make_algorithm(self, environment: Any, setup: LearnerSetup) -> Any:
        return LinearLearner(environment, setup, self.fault)


class SequenceConfig(LinearConfig, frozen=True, kw_only=True):
    """The same from replayed sequences, with a column that the environment writes."""

    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"

    def columns(self, environment: Any) -> tuple[Column, ...]:
        return (Column("cost", (2,), "float32"),)

    def replay(self) -> ReplaySpec:
        return ReplaySpec(8, sequence=Window(3, before=1, after=1))


class LinearPolicy:
    def __init__(self, environment: Any, fault: str) -> None:
        self._environment, self._fault, self._calls = environment, fault, 0

    def load(self, parameters: Any) -> None:
        (self._weight,) = parameters

    def act(self, obs: Any, *, noise: Any, explore: bool, state: Any = None) -> ActionOutput:
        mask = self._environment.action_mask
        seen = obs if mask is None else obs["seen"]
        logits = seen @ self._weight
        if self._fault == "changes what it sees":
            seen[...] = 0
        if mask is not None and self._fault != "ignores the mask":
            logits = np.where(obs[mask], logits, -1e9)
        if self._fault == "looks at the others":
            logits = logits * len(obs)
        log_probs = logits - np.log(np.exp(logits - logits.max(1)[:, None]).sum(1))[:, None]
        log_probs -= logits.max(1)[:, None]
        draw = noise
        if self._fault == "draws":
            draw = np.random.random(len(obs))  # noqa: NPY002
        if explore or self._fault == "explores always":
            action = (np.exp(log_probs).cumsum(1) <= draw[:, None]).sum(1)
            action = np.minimum(action, logits.shape[1] - 1)
            if mask is not None and self._fault != "ignores the mask":
                action = np.where(obs[mask][np.arange(len(obs)), action], action, logits.argmax(1))
        else:
            action = logits.argmax(1)
        self._calls += 1
        if self._fault == "counts":
            action = (action + self._calls) % logits.shape[1]
        chosen = np.take_along_axis(log_probs, action[:, None], 1)[:, 0].astype(np.float32)
        if self._fault == "is certain":
            chosen[:] = -np.inf
        return ActionOutput(action, chosen)

    def environment_action(self, action: Any) -> Any:
        return action + (
            0 if self._fault == "forgets the start" else self._environment.action.start
        )


class LinearLearner:
    def __init__(self, environment: Any, setup: LearnerSetup, fault: str) -> None:
        self._fault, self._steps, self._said = fault, 0, 0
        self._rng = random.Random(None if fault == "forgets the seed" else setup.seed)
        size = 5, environment.action.n
        self._weight = np.array([self._rng.gauss() for _ in range(15)], np.float32).reshape(size)

    def update(self, batch: Any) -> UpdateReport:
        (first, *_) = getattr(batch, "rollouts", (batch,))
        reward = first.reward
        if isinstance(batch, SequenceBatch):
            assert reward.shape == batch.mask.shape == batch.extra["cost"].shape[:2] == (8, 5)
            assert batch.obs.shape[:2] == (8, 6) and not reward[~batch.mask].any()
            assert batch.mask[:, 1].all(), "the row that was drawn"
        self._steps += 1
        self._weight += np.float32(reward.mean() * self._rng.gauss() / self._steps)
        metrics = {"reward": float(reward.mean())}
        match self._fault:
            case "changes the batch":
                reward -= 1
            case "says NaN":
                metrics["loss"] = float("nan")
            case "publishes NaN":
                self._weight[0] = np.nan
            case "hides a step":
                return UpdateReport(0, 1, metrics)
            case "takes more":
                return UpdateReport(2, 0, metrics)
        self._said += 1
        return UpdateReport(1, 0, metrics)

    def policy_parameters(self) -> Any:
        more = np.float32(self._said if self._fault == "publishes what it does not save" else 0)
        return [self._weight + more]

    def state_dict(self) -> dict[str, object]:
        state = {"weight": self._weight.copy(), "steps": self._steps}
        if self._fault != "forgets the generator":
            state["random"] = json.dumps(self._rng.getstate())
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._weight[...] = state["weight"]
        if self._fault != "forgets a counter":
            self._steps = state["steps"]
        if "random" in state:
            version, words, gauss = json.loads(state["random"])
            self._rng.setstate((version, tuple(words), gauss))


BROKEN = {
    "refuses": r"refuses every environment .*choices: choices only.* Give check_algorithm an Envir",
    "draws": r"`action` differs for .*Draw no random numbers in the policy",
    "looks at the others": r"each row for itself.*`behaviour_log_prob` differs for 1 of its rows",
    "changes what it sees": r"act must leave observations, noise and state as they are",
    "explores always": r"`action` differs for explore=False and other noise",
    "counts": r"`action` differs for .*keep nothing from call to call",
    "is certain": r"behaviour_log_prob must be finite; got \[-inf",
    "forgets the start": r"environment_action must stay within 2 to 4; got actions from 0 to",
    "ignores the mask": r"masked choices: act must take what the action mask allows",
    "forgets the seed": r"two learners of one seed must .* differs: state 'random', state 'weight'",
    "changes the batch": r"update must leave the arrays of its batch as they are",
    "says NaN": r"metrics of an update must be finite; got \{'loss': nan\}",
    "publishes NaN": r"published parameters must be finite; some are not",
    "hides a step": r"policy_parameters may change by an update that commits a step alone",
    "takes more": r"take or skip the 1 steps that updates_granted says of 16 rows; it took 2",
    "publishes what it does not save": r"whose state_dict it loaded.* what differs: policy_param",
    "forgets the generator": r"must equal one that never stopped.* differs: state 'weight'",
    "forgets a counter": r"the one whose state_dict it loaded.*what differs: state 'steps'",
}


def made(**changes: Any) -> LinearConfig:
    return LinearConfig(name="mine", **changes)


def test_sound_one_passes() -> None:
    check_algorithm(made(size=4), setup=SETUP)


def test_sound_one_that_learns_from_sequences_passes() -> None:
    check_algorithm(SequenceConfig(name="mine"))


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_one_is_refused_by_a_sentence(fault: str) -> None:
    with pytest.raises(ContractBroken, match=BROKEN[fault]):
        check_algorithm(made(fault=fault), setup=SETUP)


def test_configuration_that_does_not_come_back_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"must come back equal from a run's config.yaml"):
        check_algorithm(made(size=np.float32(2.5)), setup=SETUP)


def test_type_that_no_name_finds_is_refused() -> None:
    class Hidden(LinearConfig, frozen=True, kw_only=True):
        """Nobody can import it."""

    with pytest.raises(ConfigError, match=r"algorithm\.name"):
        check_algorithm(Hidden(name="mine"))


class Queued(SAC):
    """Takes its steps when it is asked for the second time; `fault` says what it does wrong."""

    ahead = 2

    def __init__(self, settings: QueuedConfig, *arguments: Any) -> None:
        super().__init__(settings, *arguments)
        self._fault, self._queue, self._asked = settings.fault, [], 0

    def begin(self, batch: Any) -> None:
        self._queue.append(batch)

    def finished(self) -> UpdateReport | None:
        self._asked += 1
        if self._asked % 2 or self._fault == "never ends":
            return None
        return self.update(self._queue.pop(-1 if self._fault == "newest first" else 0))


class QueuedConfig(SACConfig, frozen=True, kw_only=True):
    """SAC in small."""

    numpy_learner = f"{__name__}:Queued"
    hidden_sizes: tuple[int, ...] = (4,)
    batch_size: int = 4
    fault: str = ""


def test_steps_that_are_begun_must_be_whole_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    check_algorithm(QueuedConfig(), setup=SETUP)
    with pytest.raises(ContractBroken, match="begun and finished must equal whole updates"):
        check_algorithm(QueuedConfig(fault="newest first"), setup=SETUP)
    monkeypatch.setattr("fast_core.testing.algorithm.PATIENCE_S", 0.01)
    with pytest.raises(ContractBroken, match=r"finished must report each step.*None for 0\.01 s"):
        check_algorithm(QueuedConfig(fault="never ends"), setup=SETUP)
