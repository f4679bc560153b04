"""The evaluator node: plays whole episodes with an immutable snapshot of one version."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from fast_core.envs.evaluation import make_runner
from fast_core.envs.runner import Runner
from fast_core.errors import EnvironmentFailed, SegmentError
from fast_core.events import Command, Evaluate, Evaluated, Ready
from fast_core.memory import StatsColumn
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.policy.actor import Actor
from fast_core.policy.checked import make_policy
from fast_core.policy.file import BEST, BestPolicy, Origin, best_policy_path, describe
from fast_core.run.changes import attributes

STEPS_PER_UNIT = 64


class EvaluatorNode(Node):
    """Runs exactly the episodes it is asked for; never cancelled but by the end of the run."""

    consumes = frozenset({Evaluate})
    emits = frozenset({Ready, Evaluated})
    reads = frozenset({"evaluation"})

    def __init__(self, context: NodeContext) -> None:
        """Build the policy and attach the evaluation slot."""
        super().__init__(context)
        plan, memory = context.plan, context.memory
        self._policy = make_policy(plan.blueprint, plan.environment, plan.policy_setup())
        self._slot = memory.evaluation()
        self._flat = memory.parameters.empty()
        self._views = memory.parameters.views(self._flat)
        self._actor = Actor(
            plan.blueprint, plan.environment, self._policy, plan.config.evaluation.envs
        )
        self._best = BestPolicy(best_policy_path(plan.run_directory))
        self._unwritten = False  # the best, for want of room
        self._request: Evaluate | None = None
        self._runner: Runner | None = None
        self._episodes = 0
        self._changed = context.plan.changed
        self._failure: dict[str, str] = {}

    def setup(self) -> None:
        """Build the environments and step one for real."""
        self._runner = self._make_runner(episodes=self.context.plan.config.evaluation.episodes)

    def handle(self, command: Command) -> None:
        """Begin an evaluation."""
        if isinstance(command, Evaluate):
            version, _ = self._slot.read_into(self._flat.data)
            if version != command.version:
                raise SegmentError(
                    f"told to evaluate version {command.version}, the slot holds {version}; "
                    "this is a fault in FastLoop, please report it"
                )
            self._policy.load(self._views)
            self._request = command
            self._changed = command.changed
            self._runner = self._make_runner(command.episodes)

    def work(self) -> bool:
        """Play some steps of the running evaluation."""
        if self._request is None or self._runner is None:
            return False
        with self.state(NodeState.EVALUATING, f"evaluating version {self._request.version}"):
            try:
                for _ in range(STEPS_PER_UNIT):
                    if self.stopping:
                        return True
                    if not self._runner.step(self._actor):
                        self._report(self._request, self._runner)
                        self._request = None
                        break
            except EnvironmentFailed as error:
                self._failure = error.context
                raise
        return True

    def _report(self, request: Evaluate, runner: Runner) -> None:
        context, plan = self.context, self.context.plan
        result = Evaluated(
            node=context.name,
            request=request.request,
            version=request.version,
            env_steps=request.env_steps,
            returns=tuple(runner.returns),
            lengths=tuple(runner.lengths),
            info=runner.info_means(),
        )
        if plan.config.checkpoint.best and result.score is not None:
            origin = Origin(
                run=f"{plan.config.name}/{Path(plan.run_directory).name}",
                source=BEST,
                version=request.version,
                env_steps=request.env_steps,
                mean_return=result.score,
                std_return=float(np.std(runner.returns)),
            )
            self._best.offer(describe(plan.config, plan.environment, self._views, origin))
            self._write_best(again=False)
        if runner.cut:
            context.log.warning(
                "%d of %d evaluation episodes were cut after %d steps "
                "(evaluation.max_episode_steps), before their environment ended them",
                runner.cut,
                request.episodes,
                plan.config.evaluation.max_episode_steps,
            )
        if runner.quarantined:
            context.log.warning(
                "%d of %d evaluation episodes met NaN or infinity; what they come to is not known, "
                "so version %d is neither the best nor does it reach a score",
                runner.quarantined,
                request.episodes,
                request.version,
            )
        self._slot.release(request.version)
        context.stats.words[StatsColumn.EPISODES] += request.episodes
        context.channel.send(result)

    def _write_best(self, *, again: bool) -> None:
        """Write it if it is not; training is worth more than this file.

        ``again`` says it although it was said before.
        """
        try:
            self._best.write()
            self._unwritten = False
        except OSError as error:
            if again or not self._unwritten:
                self.context.log.warning("can't write the best policy: %s", error)
            self._unwritten = True

    def _make_runner(self, episodes: int) -> Runner:
        """A runner at its beginning; environments are kept while their number fits."""
        config = self.context.plan.config
        environment = config.environment
        if config.evaluation.attributes == "current":
            current = attributes(config, self._changed)
            environment = msgspec.structs.replace(environment, attributes=current)
        if self._runner is not None and self._episodes == episodes:
            self._runner.change(environment.attributes)
            self._runner.restart()
            return self._runner
        if self._runner is not None:
            self._runner.close()
        self._episodes = episodes
        return make_runner(
            environment,
            episodes=episodes,
            envs=config.evaluation.envs,
            seed=config.seed,
            max_episode_steps=config.evaluation.max_episode_steps,
            on_step=self._count_step,
            number=config.numbers.evaluator,
        )

    def _count_step(self) -> None:
        """Show that no environment hangs, however long the slowest evaluation takes."""
        self.context.stats.words[StatsColumn.PROGRESS] += 1

    def failure_context(self) -> dict[str, str]:
        """Environment, seed, step and last action, where an environment raised."""
        return self._failure

    def close(self) -> None:
        """Close every environment once."""
        self._write_best(again=True)
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
