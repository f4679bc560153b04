"""Filming an episode of an evaluation, beside it: nothing about its result can change."""

from __future__ import annotations

from pathlib import Path

from fast_core.algorithm import Policy
from fast_core.config.changes import evaluated
from fast_core.envs.drawing.video_file import DEFAULT_FPS, VideoFile, as_frame
from fast_core.envs.instance import Instance
from fast_core.envs.place import Place
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.playing.rendering import drawing
from fast_core.envs.playing.runner import Runner
from fast_core.errors import FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import Evaluate
from fast_core.monitor.screens.picture import smaller
from fast_core.nodes.act.current_policy import shown
from fast_core.nodes.node import NodeContext
from fast_core.policy.actor import Actor

FOLDER = "videos"
KEY = "evaluation.video_every"
# What TensorBoard shows is a GIF, which grows quickly: of a film of any length and size this much.
GIF_WIDTH, GIF_FPS, GIF_S = 320, 15.0, 30.0


class Filming:
    """Plays the first episode of an evaluation once more, in an environment that draws.

    Whatever goes wrong costs the video alone, and is warned of once.
    """

    where = ", for its video"

    def __init__(self, context: NodeContext, policy: Policy) -> None:
        """``policy`` is that of the evaluation; nothing is made yet."""
        config = context.plan.config
        self._context, self._config = context, config
        actor = Actor(
            context.plan.blueprint, context.plan.environment, policy, config.evaluation.envs
        )
        self._actor = shown(actor, context)
        self._folder = Path(context.plan.run_directory) / FOLDER
        self._gifs = any(sink.name == "tensorboard" for sink in config.metrics.used_sinks)
        self._runner: Runner | None = None
        self._request: Evaluate | None = None  # one that is to be filmed and was not begun yet
        self._files: tuple[VideoFile, ...] = ()  # the film, and a GIF of it where one is wanted
        self._warned = False

    def wanted(self, request: Evaluate) -> bool:
        """Whether this evaluation is one that is filmed."""
        every = self._config.evaluation.video_every
        return every is not None and request.request % every == 0

    def begin(self, request: Evaluate) -> None:
        """Be at the beginning of the video of an evaluation."""
        self._close_files()
        try:
            self._folder.mkdir(exist_ok=True)
            path = self._folder / f"evaluation-{request.env_steps:012d}.mp4"
            self._files = (VideoFile(path, KEY),)
            if self._gifs:
                self._files += (Gif(path.with_suffix(".gif"), KEY),)
            self._request = request
        except (FastLoopError, OSError) as error:
            self._give_up(error)

    def step(self) -> bool:
        """Play and draw a step; False when there is nothing left to be."""
        try:
            return bool(self._files) and self._begun().step(self._actor)
        except (FastLoopError, OSError) as error:
            self._give_up(error)
            return False

    def finish(self) -> str:
        """The path of the video in the run directory; empty if there is none."""
        if self._context.plan.environment.one_per_process:
            self._close_runner()
        if not self._files:
            return ""
        film = self._files[0]
        try:
            for file in reversed(self._files):
                file.finish()
        except (FastLoopError, OSError) as error:
            self._give_up(error)
            return ""
        self._close_files()
        self._keep_newest()
        return f"{FOLDER}/{film.path.name}"

    def close(self) -> None:
        """Close the environment, and remove a video that is not finished."""
        self._close_files()
        self._close_runner()

    def _close_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def _begun(self) -> Runner:
        """What plays; made at the first step, when nothing else is played in."""
        if self._runner is None:
            self._runner = self._make_runner()
        request, self._request = self._request, None
        if request is not None:
            self._runner.change(evaluated(self._config, None, request.changed).attributes)
            self._runner.restart()
        return self._runner

    def _make_runner(self) -> Runner:
        config, number = self._config, self._config.numbers.film
        return make_runner(
            drawing(config.environment, "rgb_array", Place(number)),
            episodes=1,
            envs=config.evaluation.envs,
            seed=config.seed,
            max_episode_steps=config.evaluation.max_episode_steps,
            number=number,
            watch=self._watch,
        )

    def _watch(self, instance: Instance) -> None:
        self._context.stats.words[StatsColumn.PROGRESS] += 1
        fps = (instance.render_fps or DEFAULT_FPS) / self._config.environment.frame_skip
        drawn = instance.render()
        for file in self._files:
            file.add(drawn, fps)

    def _give_up(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._context.log.warning(
                "no video of an evaluation (%s): %s; evaluations go on without it", KEY, error
            )
        self._close_files()

    def _close_files(self) -> None:
        files, self._files = self._files, ()
        for file in files:
            file.close()

    def _keep_newest(self) -> None:
        films = sorted(self._folder.glob("evaluation-*.mp4"))
        for film in films[: -self._config.evaluation.videos_kept]:
            for path in (film, film.with_suffix(".gif")):
                path.unlink(missing_ok=True)


class Gif(VideoFile):
    """A small film beside the large one."""

    _seen = 0

    def add(self, drawn: object, fps: float) -> None:
        """Append a frame of the large one, if it is one of those that are kept."""
        every = max(1, round(fps / GIF_FPS))
        if self._seen % every == 0 and self._seen < GIF_S * fps:
            super().add(smaller(as_frame(drawn), GIF_WIDTH), fps / every)
        self._seen += 1
