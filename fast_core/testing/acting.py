"""What every policy keeps (`fast_core.algorithm.Policy`)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from fast_core.algorithm import ActionOutput, Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.errors import ContractBroken
from fast_core.policy.checked import CheckedPolicy
from fast_core.testing.samples import draw, noise_of

ROWS = (1, 2, 7)


class Acting:
    """Checks policies of one algorithm in one environment."""

    def __init__(self, config: AlgorithmConfig, environment: EnvironmentSpec) -> None:
        self._config, self._environment = config, environment

    def check(self, policy: CheckedPolicy) -> None:
        """On any number of rows, each for itself, and within the space."""
        rng = np.random.default_rng(0)
        environment, most = self._environment, max(ROWS)
        obs = draw(environment, environment.observation, (most,), rng)
        noise = noise_of(self._config, environment, most, rng)
        size = self._config.state_size(environment)
        state = rng.normal(size=(most, size)).astype(np.float32) if size else None
        for explore in (True, False):
            whole = self._act(policy, obs, noise, explore, state)
            self._within(policy, whole, obs)
            if not explore:
                others = noise_of(self._config, environment, most, rng)
                other = self._act(policy, obs, others, False, state)
                self._alike(whole, other, "explore=False and other noise")
            for rows in ROWS:
                part = None if state is None else state[-rows:]
                some = self._act(policy, obs[-rows:], noise[-rows:], explore, part)
                self._alike(_last(whole, rows), some, f"{rows} of its rows alone", exact=False)
            again = self._act(policy, obs, noise, explore, state)
            self._alike(whole, again, "the same rows after others")

    def _act(
        self,
        policy: CheckedPolicy,
        obs: Array,
        noise: Array,
        explore: bool,
        state: Array | None,
    ) -> ActionOutput:
        given = [each for each in (obs, noise, state) if each is not None]
        before = [each.tobytes() for each in given]
        output = policy.act(obs, noise=noise, explore=explore, state=state)
        if before != [each.tobytes() for each in given]:
            raise self._broken(
                "act must leave observations, noise and state as they are; it changed one",
                "Write into a new array",
            )
        return _last(output, len(obs))

    def _within(self, policy: CheckedPolicy, output: ActionOutput, obs: Array) -> None:
        if not np.isfinite(cast("Any", output.behaviour_log_prob)).all():
            raise self._broken(
                f"behaviour_log_prob must be finite; got {output.behaviour_log_prob}",
                "Bound it from below, as a deterministic policy's noise may be 0",
            )
        space = self._environment.action
        taken: Any = policy.environment_action(output.action.copy())
        low, high = space.bounds if space.kind == "box" else space.choices
        if (taken < low.astype(taken.dtype)).any() or (taken > high.astype(taken.dtype)).any():
            raise self._broken(
                f"environment_action must stay within {low.tolist()} to {high.tolist()}; got "
                f"actions from {taken.min(0)} to {taken.max(0)}",
                "Clip a box, and add the first choice of the space to choices, stored from 0",
            )
        if (name := self._environment.action_mask) is None:
            return
        mask, begin = cast("Any", obs)[name], 0
        chosen = (taken - low).reshape(len(taken), -1)
        for dimension, count in enumerate((high - low + 1).ravel()):
            part = mask[:, begin : begin + count]
            if not np.take_along_axis(part, chosen[:, dimension, None], 1).all():
                raise self._broken(
                    "act must take what the action mask allows; it took a forbidden choice",
                    f"Give choices whose element of obs[{name!r}] is 0 no probability, or refuse "
                    "environments with an action_mask in check",
                )
            begin += count

    def _alike(
        self, first: ActionOutput, second: ActionOutput, when: str, *, exact: bool = True
    ) -> None:
        answers = [{**each._asdict(), **each.extra} for each in (first, second)]
        for name, one in answers[0].items():
            other = answers[1][name]
            if not isinstance(one, np.ndarray):
                continue
            whole, nan = one.dtype.kind in "biu" or exact, one.dtype.kind == "f"  # nothing said
            same = np.array_equal(one, other, equal_nan=nan)
            if same or (not whole and np.allclose(one, other, 1e-3, 1e-4, equal_nan=nan)):
                continue
            raise self._broken(
                f"act must answer each row for itself, by its noise alone, so that it does not "
                f"matter who acts, and with how many others; `{name}` differs for {when}: "
                f"{one.tolist()} and {other.tolist()}",
                "Draw no random numbers in the policy, and keep nothing from call to call",
            )

    def _broken(self, promise: str, advice: str) -> ContractBroken:
        where = f"{self._config.name} with {self._environment.id}"
        return ContractBroken(f"{where}: {promise}. {advice}.")


def _last(output: ActionOutput, rows: int) -> ActionOutput:
    """A copy of the last rows."""
    action, log_prob, state = output
    remembered = None if state is None else state[-rows:].copy()
    more = {name: array[-rows:].copy() for name, array in output.extra.items()}
    return ActionOutput(action[-rows:].copy(), np.array(log_prob[-rows:]), remembered, more)
