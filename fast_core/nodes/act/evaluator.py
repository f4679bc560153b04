"""The evaluator node: plays whole episodes with an immutable snapshot of one version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import Values
from fast_core.config.changes import evaluated
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.playing.runner import Runner
from fast_core.errors import SegmentError
from fast_core.memory import StatsColumn
from fast_core.messages import Command, Evaluate, Evaluated, Played, Ready
from fast_core.nodes.act.current_policy import shown
from fast_core.nodes.act.filming import Filming
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.nodes.show.camera import Camera, Scene, Studio
from fast_core.policy.actor import Actor
from fast_core.policy.checked import make_policy
from fast_core.policy.file import BestPolicy, Origin, best_name, best_policy_path, describe
from fast_core.run.watching import WATCHING

STEPS_PER_UNIT = 64


class EvaluatorNode(Node):
    """Runs exactly the episodes it is asked for; never cancelled but by the end of the run.

    It plays them in the environment of training, and then in each of ``evaluation.environments``.
    """

    consumes = frozenset({Evaluate})
    emits = frozenset({Ready, Evaluated})
    reads = frozenset({"evaluation", WATCHING})
    writes = frozenset({"frames"})

    def __init__(self, context: NodeContext) -> None:
        """Build the policy and attach the evaluation slot."""
        super().__init__(context)
        plan, memory = context.plan, context.memory
        self._policy = make_policy(plan.blueprint, plan.environment, plan.policy_setup())
        self._slot = memory.evaluation()
        self._flat = memory.parameters.empty()
        self._views = memory.parameters.views(self._flat)
        envs = plan.config.evaluation.envs
        actor = Actor(plan.blueprint, plan.environment, self._policy, envs)
        self._studio = Studio.of(context)
        names = (None, *plan.config.evaluation.environments)
        self._stages = [
            Stage(context, actor, number, name, None if number else self._studio)
            for number, name in enumerate(names)
        ]
        self._request: Evaluate | None = None
        self._left: list[Stage | Filming] = []  # to be played in for it, the next one first
        self._filming = Filming(context, self._policy)

    def setup(self) -> None:
        """Build the environments and step one for real."""
        for stage in self._stages:
            stage.begin(self.context.plan.config.evaluation.episodes, self.context.plan.changed)

    def handle(self, command: Command) -> None:
        """Begin an evaluation."""
        if isinstance(command, Evaluate):
            if self._slot.held() is None:  # it died before it told
                self._slot.hold_again()
            version, _ = self._slot.read_into(self._flat.data)
            if version != command.version:
                raise SegmentError(
                    f"told to evaluate version {command.version}, the slot holds {version}; "
                    "this is a fault in FastLoop, please report it"
                )
            self._policy.load(self._views)
            self._request = command
            self._left = list(self._stages)
            for stage in self._stages:
                stage.begin(command.episodes, command.changed, version)
            if self._filming.wanted(command):
                self._filming.begin(command)
                self._left.append(self._filming)

    def work(self) -> bool:
        """Play some steps of the running evaluation."""
        if self._request is None:
            return False
        doing = f"evaluating version {self._request.version}{self._left[0].where}"
        with self.state(NodeState.EVALUATING, doing):
            for _ in range(STEPS_PER_UNIT):
                if self.stopping:
                    return True
                if not self._left[0].step():
                    self._next()
                    break
        if not self._left:
            version = self._request.version
            with self.state(NodeState.WRITING, f"writing what came of version {version}"):
                self._report(self._request)
            self._request = None
        return True

    def _next(self) -> None:
        """Go on to what is played in next; two of an emulator can't be there at once."""
        done = self._left.pop(0)
        if self._left and isinstance(done, Stage) and self.context.plan.environment.one_per_process:
            done.close_runner()

    def _report(self, request: Evaluate) -> None:
        context = self.context
        first, *others = (stage.played(request, self._views) for stage in self._stages)
        video = self._filming.finish()
        self._slot.release(request.version)
        context.stats.words[StatsColumn.EPISODES] += request.episodes * len(self._stages)
        context.channel.send(
            Evaluated(
                node=context.name,
                request=request.request,
                version=request.version,
                env_steps=request.env_steps,
                returns=first.returns,
                lengths=first.lengths,
                info=first.info,
                others=dict(zip(context.plan.config.evaluation.environments, others, strict=True)),
                video=video,
            )
        )

    def close(self) -> None:
        """Close every environment once."""
        for stage in self._stages:
            stage.close()
        self._filming.close()
        if self._studio is not None:
            self._studio.close()


class Stage:
    """One environment that evaluations play in, and the best policy in it.

    Attributes:
        where: Its name as words that follow others; nothing for that of training.
        runner: Plays the episodes, once they are begun.
    """

    runner: Runner

    def __init__(
        self,
        context: NodeContext,
        actor: Actor,
        number: int,
        name: str | None,
        studio: Studio | None = None,
    ) -> None:
        """The ``number``-th, called ``name``, for ``actor``; nothing is made yet.

        A ``studio`` shows those of its environments that are tiles.
        """
        self._actor, self._studio, self._version = actor, studio, 0
        self._act = shown(actor, context)
        self._camera: Camera | None = None
        self._context, self._number = context, number
        self._name = name
        self.where = "" if name is None else f" in {name!r}"
        self._episodes = 0
        self._best = BestPolicy(best_policy_path(context.plan.run_directory, name))
        self._unwritten = False  # the best, for want of room

    def begin(self, episodes: int, changed: Values, version: int = 0) -> None:
        """Be at the beginning; environments are kept while their number fits.

        ``version`` is that of the policy that is evaluated.
        """
        self._version = version
        config = self._context.plan.config
        environment = evaluated(config, self._name, changed)
        if self._episodes == episodes:
            self.runner.change(environment.attributes)
            self.runner.restart()
            return
        self.close_runner()
        self.runner = make_runner(
            environment,
            episodes=episodes,
            envs=config.evaluation.envs,
            seed=config.seed,
            max_episode_steps=config.evaluation.max_episode_steps,
            on_step=self._count_step,
            number=config.numbers.evaluator + self._number * config.evaluation.envs,
            draws=self._studio.draws(None) if self._studio else (),
        )
        self._episodes = episodes
        if self._studio is not None:
            envs = range(config.evaluation.envs)
            self._camera = self._studio.camera(None, envs, self.runner, environment)

    def step(self) -> bool:
        """Play a step of every episode; False when all are played."""
        camera = self._camera
        if camera is None or not camera.watched:
            return self.runner.step(self._act)
        return self.runner.step(partial(self._act_watched, camera))

    def _act_watched(self, camera: Camera, obs: Array, began: NDArray[np.bool_]) -> Array:
        """Act, and show what the policy is about to do."""
        due = camera.due()
        if not due:
            return self._act(obs, began)
        state = self._actor.remembered(began)
        actions = self._act(obs, began)
        camera.take(due, Scene(obs, actions, state, self._version, 1))
        return actions

    def _count_step(self) -> None:
        """Show that no environment hangs, however long the slowest evaluation takes."""
        self._context.stats.words[StatsColumn.PROGRESS] += 1

    def played(self, request: Evaluate, parameters: Sequence[Array]) -> Played:
        """What has been played; keeps the policy if it is the best here, and warns."""
        runner, log, plan = self.runner, self._context.log, self._context.plan
        config = plan.config
        result = Played(tuple(runner.returns), tuple(runner.lengths), runner.info_means())
        if config.checkpoint.best and result.score is not None:
            origin = Origin(
                run=f"{config.name}/{Path(plan.run_directory).name}",
                source=best_name(self._name),
                version=request.version,
                env_steps=request.env_steps,
                mean_return=result.score,
                std_return=float(np.std(runner.returns)),
            )
            self._best.offer(describe(config, plan.environment, parameters, origin))
            self._write_best(again=False)
        if runner.cut:
            log.warning(
                "%d of %d evaluation episodes%s were cut after %d steps "
                "(evaluation.max_episode_steps), before their environment ended them",
                runner.cut,
                request.episodes,
                self.where,
                config.evaluation.max_episode_steps,
            )
        if runner.quarantined:
            log.warning(
                "%d of %d evaluation episodes%s met NaN or infinity; what they come to is not "
                "known, so version %d is neither the best nor does it reach a score",
                runner.quarantined,
                request.episodes,
                self.where,
                request.version,
            )
        return result

    def _write_best(self, *, again: bool) -> None:
        """Write it if it is not; training is worth more than this file.

        ``again`` says it although it was said before.
        """
        try:
            self._best.write()
            self._unwritten = False
        except OSError as error:
            if again or not self._unwritten:
                self._context.log.warning("can't write the best policy: %s", error)
            self._unwritten = True

    def close_runner(self) -> None:
        """Close the environments, if any are open."""
        if self._episodes:
            self._episodes = 0
            camera, self._camera = self._camera, None
            if camera is None:
                self.runner.close()
            else:
                camera.close(self.runner.close)

    def close(self) -> None:
        """Write what is left to be written, and close every environment once."""
        self._write_best(again=True)
        self.close_runner()
