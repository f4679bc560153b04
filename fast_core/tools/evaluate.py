"""Playing a trained policy: what `fastloop eval` does, in this process, without torch if it can."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fast_core.envs.drawing.video_file import DEFAULT_FPS, VideoFile
from fast_core.envs.instance import Instance
from fast_core.envs.place import Place
from fast_core.envs.playing.rendering import Mode, drawing, explained
from fast_core.errors import ConfigError
from fast_core.monitor.screens.picture import as_text
from fast_core.policy.episodes import Episodes
from fast_core.policy.evaluation import Playing, Setting, setting_of
from fast_core.policy.loading import load_policy
from fast_core.policy.policy import Policy
from fast_core.policy.recording import Trajectories
from fast_core.system import threads
from fast_core.system.interrupts import Interrupts
from fast_core.system.surroundings import write_result

TELL_S = 2.0  # between lines about a video in the making
TEXT_FPS = 2.0  # of text whose environment says nothing of it
_CLEAR = "\x1b[2J\x1b[H"  # what makes a terminal empty


def evaluate_run(
    path: Path,
    episodes: int | None,
    *,
    overrides: Sequence[str] | None = None,
    render: bool = False,
    video: Path | None = None,
    record: Path | None = None,
    checkpoint: str | None = None,
    seed: int | None = None,
    repeat: bool = False,
    explore: bool = False,
    modules: Sequence[str] = (),
    environment: str | None = None,
) -> int:
    """Play a run's policy and print the result as one JSON object.

    On episodes that the run never evaluated on: those that chose the best policy show it better
    than it is. The same command plays the same ones, and watching changes nothing about that.

    Args:
        path: Run directory, one of its checkpoints, or a policy file.
        episodes: How many; None takes ``evaluation.episodes``.
        overrides: What of ``environment`` and ``evaluation`` is to be another than in training.
        render: Show them in a window.
        video: Write them to this file.
        record: Write the trajectories to this file.
        checkpoint: Which policy, see `load_policy`.
        seed: Seed of the episodes, instead of the run's.
        repeat: Play the episodes of the run's own evaluations instead, so that the mean on record
            comes out again.
        explore: Act as in training, with exploration.
        modules: What a policy's file may import, see `load_policy`.
        environment: In which of ``evaluation.environments``; None for that of training.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: There is no such policy, its environment can't be made or drawn, or it does
            not fit it.
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
    policy = load_as_in_a_node(path, checkpoint, modules)
    setting = setting_of(policy, overrides=overrides or (), named=environment)
    with ExitStack() as stack:
        # Without anything to clean up, Ctrl-C ends the process at once.
        interrupts = stack.enter_context(Interrupts()) if mode is not None else None
        if interrupts is not None:
            interrupts.raises = True
        trajectories = None if record is None else Trajectories(record)
        shown = Shown(
            policy,
            setting,
            mode,
            video,
            episodes=episodes,
            seed=seed,
            repeat=repeat,
            explore=explore,
            trajectories=trajectories,
        )
        if shown.video is not None:  # after the other, which a second signal may cut short
            stack.callback(shown.video.close)
        stack.callback(shown.close)
        if stopped := _play(shown, interrupts, render):
            return stopped
        if shown.video is not None:
            shown.video.finish()
        played = shown.playing.finish()
    how: dict[str, object] = {"seed": shown.playing.seed, "repeat": repeat, "explore": explore}
    how |= {} if environment is None else {"environment": environment}
    files = {"video": video, "record": None if trajectories is None else trajectories.path}
    how |= {name: str(file) for name, file in files.items() if file is not None}
    write_result(json.dumps(_result(path, policy, played, how)))
    return 0


def load_as_in_a_node(path: Path, checkpoint: str | None, modules: Sequence[str] = ()) -> Policy:
    """Load a policy, and compute with the threads of a node: so the mean on record comes again."""
    for name, value in threads.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    policy = load_policy(path, checkpoint=checkpoint, modules=modules)
    threads.set_threads(threads.default_threads())
    return policy


class Shown:
    """One evaluation and its audience.

    Attributes:
        playing: The evaluation.
        video: The file that is written, if any.
    """

    def __init__(
        self,
        policy: Policy,
        setting: Setting,
        mode: Mode | None,
        video: Path | None = None,
        **played: Any,
    ) -> None:
        """Make the environments; a single one, that draws, with ``mode``.

        ``played`` is what else `Playing` takes.
        """
        self.video = None if video is None else VideoFile(video)
        self._environment, self._mode = setting.environment, mode
        self._drawn = False
        self._told = 0
        if mode is not None:
            drawn = drawing(setting.environment, mode, Place(setting.number))
            setting = replace(setting, environment=drawn)
        with self._explained():
            watch = None if mode is None else self._watch
            self.playing = Playing(policy, setting, watch=watch, **played)

    def step(self) -> bool:
        """Step every open episode; whether any is open still."""
        if self._drawn:
            return self.playing.step()
        with self._explained():
            return self.playing.step()

    def ended(self) -> str:
        """A line about the episode that has ended since the last call; of drawn ones only."""
        runner, ended = self.playing.runner, self._told
        if ended + 1 == len(runner.lengths) or not runner.lengths[ended + 1]:
            return ""
        self._told += 1
        steps = f"{runner.lengths[ended]} steps"
        if math.isnan(runner.returns[ended]):
            return f"episode {ended}: NaN or infinity after {steps}, so its return is not known"
        return f"episode {ended}: return {runner.returns[ended]:g}, {steps}"

    def progress(self) -> str:
        """A line about how far it is, or about the episode that is being drawn."""
        runner = self.playing.runner
        episode, lengths = self._told, runner.lengths
        last = len(lengths) - 1
        if self._mode is None:
            done = len(lengths) - runner.endings.count(None)
            return f"{done} of {len(lengths)} episodes are over, {sum(lengths)} steps so far"
        return f"episode {episode} (the last is {last}): {lengths[episode]} steps so far"

    def restart(self) -> None:
        """Play the same episodes again."""
        self.playing.runner.restart()
        self._told = 0

    def close(self) -> None:
        """Close the environments and the window; remove a video that is not finished."""
        if self.video is not None:
            self.video.close()
        self.playing.close()

    def _watch(self, instance: Instance) -> None:
        if self.video is not None:
            fps = (instance.render_fps or DEFAULT_FPS) / self._environment.frame_skip
            self.video.add(instance.render(), fps)
        if self._mode == "ansi":
            _write(instance)
        self._drawn = True

    def _explained(self) -> AbstractContextManager[None]:
        return nullcontext() if self._mode is None else explained(self._environment, self._mode)


def _play(shown: Shown, interrupts: Interrupts | None, render: bool) -> int:
    """Play to the end, and tell how far it is; the exit status of an interrupt, else 0."""
    told_s = time.monotonic()
    while shown.step():
        if interrupts is not None and interrupts.count:
            return interrupts.exit_code
        ended = "" if interrupts is None else shown.ended()
        if not ended and not render and time.monotonic() >= told_s + TELL_S:
            ended = shown.progress()
        if ended:  # drawing may take minutes, and so may slow episodes
            print(ended, file=sys.stderr, flush=True)
            told_s = time.monotonic()
    return 0


def _write(instance: Instance) -> None:
    """Write an environment's text, as fast as it is to be seen."""
    text = as_text(instance.render()) or ""
    print(f"{_CLEAR if sys.stdout.isatty() else ''}{text}\n", flush=True)
    time.sleep(1 / (instance.render_fps or TEXT_FPS))


def _result(
    path: Path, policy: Policy, played: Episodes, how: dict[str, object]
) -> dict[str, object]:
    return {
        "run": str(policy.run or path.absolute()),
        "policy": policy.origin.source,
        **played.summary(),
        "version": policy.version,
        "env_steps": policy.env_steps,
        **how,
    }
