"""A run that has ended, whose policy plays while somebody looks."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.dashboard.files import RunOnFile
from fast_core.dashboard.source import Hello, Now, TileFacts, TileNow
from fast_core.envs.drawing.drawable import NotYet
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.envs.drawing.video_file import DEFAULT_FPS
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.playing.runner import Runner
from fast_core.errors import FastLoopError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.picture import NoPicture, as_drawn
from fast_core.policy.actor import Actor
from fast_core.policy.evaluation import Setting
from fast_core.policy.policy import Policy
from fast_core.run.frame import Frame
from fast_core.system.seeding import Role
from fast_core.system.text import error_text

TILES = 8
EPISODES = 1000  # then the first ones come again
FPS = 10.0  # at most, of each tile
WIDTH = 320  # most pixels of a picture
LEAVES_S = 5.0  # for the step under way
LOOK_S = 0.2  # while nobody looks
EARLY = 0.9  # of an interval; steps do not come to the millisecond


class PlayedRun(RunOnFile):
    """See `fast_core.dashboard.source.Source`; what its policy thinks is not told."""

    def __init__(self, run: RunDirectory, policy: Policy, setting: Setting) -> None:
        """``setting`` is where ``policy`` plays, without exploration."""
        super().__init__(run)
        self._player = Player(policy, setting)

    def check(self) -> None:
        """See whether it plays.

        Raises:
            FastLoopError: It does not any more; says why.
        """
        if self._player.error is not None:
            text = f"the policy can't play: {error_text(self._player.error)}"
            raise FastLoopError(text) from self._player.error

    def hello(self) -> Hello:
        """What the run is, its history, and where its policy plays."""
        tiles = tuple(TileFacts(n, 0, n, "policy", "training") for n in range(TILES))
        return replace(super().hello(), tiles=tiles, fps=FPS, frames=True, why_no_frames="")

    def now(self) -> Now:
        """The end of the run, and what is played."""
        return replace(super().now(), tiles=tuple(map(self._tile, range(TILES))))

    def _tile(self, tile: int) -> TileNow:
        found = self._player.newest.get(tile)
        if found is None:
            return TileNow(tile, "starting")
        return TileNow.of(tile, "running", "", found[1])

    def want(self, intervals_ns: dict[int, int], *, insight: bool = False) -> None:
        """Which tiles are looked at: only then it plays."""
        self._player.wanted = dict(intervals_ns)

    def frame(self, tile: int, newer_than: int) -> tuple[int, Frame] | None:
        """The newest frame of a tile and its number, if that is above ``newer_than``."""
        found = self._player.newest.get(tile)
        return None if found is None or found[0] <= newer_than else found

    def close(self) -> None:
        """Play no more."""
        self._player.close()
        super().close()


class Player:
    """A thread in which environments are made, stepped, drawn and closed.

    Attributes:
        wanted: Time between two frames of each tile that somebody wants, ns; set by who asks.
        newest: The newest frame of each tile and its number.
        error: What ended it.
    """

    def __init__(self, policy: Policy, setting: Setting) -> None:
        self.wanted: dict[int, int] = {}
        self.newest: dict[int, tuple[int, Frame]] = {}
        self.error: Exception | None = None
        self._policy, self._setting = policy, setting
        self._notes, self._hopeless = [""] * TILES, set[int]()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plays", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        setting = self._setting
        let_draw_without_screen()
        try:
            runner = make_runner(
                setting.environment,
                episodes=EPISODES,
                envs=TILES,
                seed=setting.seed,
                role=Role.FRESH_EVALUATION,
                max_episode_steps=setting.evaluation.max_episode_steps,
                number=setting.number,
                maker=setting.maker,
                draws=range(TILES),
            )
            with closing(runner):
                self._play(runner)
        except Exception as error:  # an environment may raise anything; `PlayedRun.check` tells
            self.error = error

    def _play(self, runner: Runner) -> None:
        policy = self._policy
        actor = Actor(policy.config, policy.environment, policy.make_acting(), TILES)
        pace_s = self._setting.environment.frame_skip / _natural_fps(runner)

        def act(obs: Array, began: NDArray[np.bool_]) -> Array:
            actions, drawn_s = actor(obs, began), time.monotonic()
            for tile in self._due():
                self._take(runner, tile, obs[tile].copy(), actions[tile].copy())
                if time.monotonic() > drawn_s + pace_s:  # the others have their turn in the next
                    break
            return actions

        while not self._closing.is_set():
            began_s = time.monotonic()
            if self.wanted and not runner.step(act):
                runner.restart()
            rest_s = pace_s if self.wanted else LOOK_S
            self._closing.wait(max(0.0, began_s + rest_s - time.monotonic()))

    def _due(self) -> list[int]:
        """Tiles of which a frame is due, the oldest first."""
        now_ns, wanted = time.monotonic_ns(), self.wanted
        last = {
            tile: self.newest[tile][1].taken_ns if tile in self.newest else 0 for tile in wanted
        }
        due = [tile for tile, each in wanted.items() if now_ns - last[tile] >= EARLY * each]
        return sorted(due, key=last.__getitem__)

    def _take(self, runner: Runner, tile: int, obs: Array, action: Array) -> None:
        present = runner.present(tile)
        if present is None:
            return
        drawn = self._draw(runner, tile)
        frame = Frame(
            taken_ns=time.monotonic_ns(),
            shard=0,
            env=tile,
            episode=present.episode,
            seed=present.seed,
            step=present.step,
            version=self._policy.version,
            incarnation=1,
            total=present.total,
            fps=0.0,
            note=self._notes[tile],
            picture=None if isinstance(drawn, str) else drawn,
            obs=obs,
            action=action,
            state=np.zeros(0, np.float32),
            text=drawn if isinstance(drawn, str) else "",
        )
        number = self.newest[tile][0] + 1 if tile in self.newest else 0
        self.newest[tile] = number, frame

    def _draw(self, runner: Runner, tile: int) -> NDArray[np.uint8] | str | None:
        """The picture or the text; None once there was none, which the tile's note says."""
        drawable = runner.drawable(tile)
        if tile in self._hopeless:
            return None
        try:
            if drawable.why_not:
                raise NoPicture(drawable.why_not)
            if tile not in self.newest:
                drawable.fit(WIDTH)
            drawn, self._notes[tile] = as_drawn(drawable.render(), WIDTH), ""
            return drawn
        except NotYet as error:
            self._notes[tile] = f"no picture yet: {error}"
            return None
        except NoPicture as error:
            self._notes[tile] = f"no picture: {error}"
        except Exception as error:  # an environment may raise anything
            self._notes[tile] = f"no picture: render() raised {error_text(error)}"
        self._hopeless.add(tile)
        return None

    def close(self) -> None:
        """End it; even twice."""
        self._closing.set()
        self._thread.join(LEAVES_S)


def _natural_fps(runner: Runner) -> float:
    """Frames a second at which its pictures move as they should, if it says."""
    for part in runner.drawable(0).parts:
        fps = getattr(part, "metadata", {}).get("render_fps")
        if isinstance(fps, int | float) and fps > 0:
            return float(fps)
    return DEFAULT_FPS
