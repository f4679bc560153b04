"""Playing a trained policy: what `fastloop eval` does, in this process, without torch if it can."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from fast_core.envs.evaluation import make_runner
from fast_core.envs.instance import Instance
from fast_core.envs.place import Place
from fast_core.envs.rendering import Mode, drawing, explained
from fast_core.envs.runner import Runner
from fast_core.envs.video_file import DEFAULT_FPS, VideoFile
from fast_core.errors import ConfigError
from fast_core.launcher.processes.interrupts import Interrupts
from fast_core.launcher.shown.metrics_rows import evaluation_figures
from fast_core.nodes.act.actor import Actor
from fast_core.seeding import Role
from fast_core.system.surroundings import write_result
from fast_core.tools.trained import Trained, load_trained

TELL_S = 2.0  # between lines about a video in the making


def evaluate_run(
    path: Path,
    episodes: int | None,
    *,
    render: bool = False,
    video: Path | None = None,
    checkpoint: str | None = None,
    seed: int | None = None,
    repeat: bool = False,
    explore: bool = False,
) -> int:
    """Play a run's policy and print the result as one JSON object.

    On episodes that the run never evaluated on: those that chose the best policy show it better
    than it is. The same command plays the same ones, and watching changes nothing about that.

    Args:
        path: Run directory.
        episodes: How many; None takes ``evaluation.episodes``.
        render: Show them in a window.
        video: Write them to this file.
        checkpoint: Which policy, see `load_trained`.
        seed: Seed of the episodes, instead of the run's.
        repeat: Play the episodes of the run's own evaluations instead, so that the mean on record
            comes out again.
        explore: Act as in training, with exploration.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: There is no such policy, or its environment can't be made or drawn.
    """
    if render and video is not None:
        raise ConfigError("--render and --video can't be had at once: a window gives no images")
    if repeat and seed is not None:
        raise ConfigError(
            "--repeat plays the episodes of the run's own evaluations, "
            f"--seed {seed} plays others; give one of them"
        )
    video = video and video.absolute()  # user code may change the current folder
    mode: Mode | None = "human" if render else "rgb_array" if video is not None else None
    trained = load_trained(path, checkpoint)
    count = episodes or trained.config.evaluation.episodes
    seed = trained.config.seed if seed is None else seed
    with ExitStack() as stack:
        # Without anything to clean up, Ctrl-C ends the process at once.
        interrupts = stack.enter_context(Interrupts()) if mode is not None else None
        if interrupts is not None:
            interrupts.raises = True
        playing = Playing(
            trained, count, seed, repeat=repeat, mode=mode, video=video, explore=explore
        )
        if playing.video is not None:  # after the other, which a second signal may cut short
            stack.callback(playing.video.close)
        stack.callback(playing.close)
        told_s = time.monotonic()
        while playing.step():
            if interrupts is not None and interrupts.count:
                return interrupts.exit_code
            ended = playing.ended() if mode is not None else ""
            if not ended and video is not None and time.monotonic() >= told_s + TELL_S:
                ended = playing.progress()
            if ended:  # drawing may take minutes
                print(ended, file=sys.stderr, flush=True)
                told_s = time.monotonic()
        if playing.video is not None:
            playing.video.finish()
    how: dict[str, object] = {"seed": seed, "repeat": repeat, "explore": explore}
    write_result(json.dumps(_result(trained, playing.runner, how, video)))
    return 0


class Playing:
    """Environments, policy and audience of one evaluation.

    Attributes:
        runner: Plays the episodes.
        video: The file that is written, if any.
    """

    def __init__(
        self,
        trained: Trained,
        episodes: int,
        seed: int,
        *,
        repeat: bool = False,
        mode: Mode | None = None,
        video: Path | None = None,
        explore: bool = False,
    ) -> None:
        """Make the environments; a single one, that draws, with ``mode``."""
        config = trained.config
        self.video = None if video is None else VideoFile(video)
        self._environment, self._mode = config.environment, mode
        self._drawn = False
        self._told = 0
        environment = (
            config.environment
            if mode is None
            else drawing(config.environment, mode, Place(config.numbers.command))
        )
        envs = config.evaluation.envs
        explore_seed = seed if explore else None
        self._actor = Actor(trained.plan, trained.policy, envs, explore_seed=explore_seed)
        with self._explained():
            self.runner = make_runner(
                environment,
                episodes=episodes,
                envs=envs,
                seed=seed,
                role=Role.EVALUATION if repeat else Role.FRESH_EVALUATION,
                max_episode_steps=config.evaluation.max_episode_steps,
                number=config.numbers.command,
                watch=None if mode is None else self._watch,
            )

    def step(self) -> bool:
        """Step every open episode; whether any is open still."""
        if self._drawn:
            return self.runner.step(self._actor)
        with self._explained():
            return self.runner.step(self._actor)

    def ended(self) -> str:
        """A line about the episode that has ended since the last call; of drawn ones only."""
        runner, ended = self.runner, self._told
        if ended + 1 == len(runner.lengths) or not runner.lengths[ended + 1]:
            return ""
        self._told += 1
        steps = f"{runner.lengths[ended]} steps"
        if math.isnan(runner.returns[ended]):
            return f"episode {ended}: NaN or infinity after {steps}, so its return is not known"
        return f"episode {ended}: return {runner.returns[ended]:g}, {steps}"

    def progress(self) -> str:
        """A line about the episode that is being drawn."""
        episode, lengths = self._told, self.runner.lengths
        last = len(lengths) - 1
        return f"episode {episode} (the last is {last}): {lengths[episode]} steps so far"

    def restart(self) -> None:
        """Play the same episodes again."""
        self.runner.restart()
        self._told = 0

    def close(self) -> None:
        """Close the environments and the window; remove a video that is not finished."""
        if self.video is not None:
            self.video.close()
        self.runner.close()

    def _watch(self, instance: Instance) -> None:
        if self.video is not None:
            fps = (instance.render_fps or DEFAULT_FPS) / self._environment.frame_skip
            self.video.add(instance.render(), fps)
        self._drawn = True

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext() if self._mode is None else explained(self._environment, self._mode)


def _result(
    trained: Trained, runner: Runner, how: dict[str, object], video: Path | None
) -> dict[str, object]:
    none_known = dict.fromkeys(
        ("return_mean", "return_std", "return_min", "return_max", "length_mean")
    )
    result: dict[str, object] = {
        "run": str(trained.run.path),
        "policy": trained.source,
        "episodes": len(runner.returns),
        **none_known,
        **evaluation_figures(runner.returns, runner.lengths),
        "episodes_cut": runner.cut,
        "info": runner.info_means(),
        "version": trained.file.version,
        "env_steps": trained.file.env_steps,
        **how,
    }
    return result if video is None else {**result, "video": str(video)}
