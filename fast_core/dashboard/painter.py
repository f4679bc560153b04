"""Draws environments in the page's process, from the few numbers that env nodes give of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from fast_core.envs.drawing.classic_pictures import drawn_small
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen, make_to_draw
from fast_core.envs.drawing.mujoco_pictures import MujocoPictures, draws_with_gymnasium
from fast_core.envs.drawing.poses import take_pose
from fast_core.envs.making import Env, make_env
from fast_core.envs.place import ALONE
from fast_core.monitor.screens.picture import as_picture
from fast_core.run.frame import Frame
from fast_core.run.plan import RunPlan
from fast_core.system.crowding import Crowding
from fast_core.system.text import error_text

# The environment is made, drivers are loaded and shaders compiled for the first picture.
FIRST_S, NEXT_S = 30.0, 3.0
# It leaves drawing to env nodes for so long after the first fault, and twice as long after each
# more; on a machine that is busy drawing may be late, and well again when it is not.
PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0


class Painter:
    """A thread with an environment of its own, which is brought to each pose and drawn.

    Where it has to wait for a core, it takes `dashboard.cpu_share` of one at most together with
    what becomes of its pictures here. Of what it can't draw in time the newest is drawn. When
    anything goes wrong env nodes draw again, and say what there is to say; it tries anew later.

    Concurrency: the server's thread asks and takes, the painter's draws; both hold the lock for
    some assignments only.
    """

    def __init__(self, plan: RunPlan) -> None:
        """Nothing is made before something is to be drawn."""
        self._config, self._share = plan.config.environment, plan.config.dashboard.cpu_share
        self._width = plan.config.dashboard.width
        self._why_not = ""
        if plan.config.mode != "process":  # its thread would be one of training's process
            self._why_not = "the run has one process"
        elif ALONE.fill(self._config) != self._config:
            self._why_not = "environments differ by their places"
        self._lock = threading.Condition()
        self._asked: dict[int, tuple[int, Frame]] = {}  # the oldest request first
        self._painted: dict[int, tuple[int, Frame]] = {}
        self._drawn_s: dict[int, float] = {}  # when the last picture of a tile was begun
        self._since_s: float | None = None  # since when it has been at what it does
        self._limit_s = FIRST_S
        self._again_s, self._pause_s = 0.0, PAUSE_S  # when it takes poses again; the next pause
        self._late = False
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def draws(self) -> bool:
        """Whether it takes poses."""
        since_s, now_s = self._since_s, time.monotonic()
        late = since_s is not None and now_s - since_s > self._limit_s
        if late and not self._late:
            self._leave_it(f"drawing did not return within {self._limit_s:g} s")
        self._late = late
        return not self._why_not and not late and now_s >= self._again_s

    def ask(self, tile: int, number: int, frame: Frame) -> None:
        """Let the picture of a frame be drawn, unless a newer one of the tile comes first."""
        if not self.draws:
            return
        if self._thread is None or not self._thread.is_alive():
            self._limit_s = FIRST_S
            self._thread = threading.Thread(target=self._run, name="paints", daemon=True)
            self._thread.start()
        with self._lock:
            self._asked[tile] = number, frame
            self._lock.notify()

    def painted(self, tile: int) -> tuple[int, Frame] | None:
        """The newest frame of a tile that was drawn, and its number."""
        return self._painted.get(tile)

    def close(self) -> None:
        """Let the thread end; what hangs is left to the end of the process."""
        with self._lock:
            self._closed.set()
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(NEXT_S)

    # --- its thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        env: Env | None = None
        try:
            self._since_s = time.monotonic()
            env, draw = self._make()
            self._since_s, crowding = None, Crowding()
            ended_s = time.process_time()
            while (asked := self._next()) is not None:
                began_s = time.thread_time()
                self._paint(*asked, env, draw)
                own_s = time.thread_time() - began_s
                # Its pictures are made files and sent by the server's thread meanwhile; what takes
                # longer than drawing is not for their sake.
                began_s, ended_s = ended_s, time.process_time()
                cost_s = min(ended_s - began_s, 2 * own_s)
                rest_s = cost_s * min(1.0, crowding.factor() - 1) / self._share
                self._closed.wait(rest_s)  # poses that come meanwhile don't wake it
        except Exception as error:  # an environment may raise anything
            self._leave_it(error_text(error))
        finally:
            self._since_s = time.monotonic()
            if env is not None:
                with suppress(Exception):
                    env.close()
            self._since_s = None

    def _make(self) -> tuple[Env, Callable[[], object]]:
        """An environment that has been reset and drawn once, and what draws it."""
        let_draw_without_screen()
        # Mesa's software would draw in threads of its own on every core, which training needs.
        os.environ.setdefault("LP_NUM_THREADS", "0")
        env, why_not = make_to_draw(self._config, make_env)
        if why_not:
            raise RuntimeError(why_not)
        env.reset(seed=0)
        draw: Callable[[], object] = env.unwrapped.render
        if draws_with_gymnasium(env):
            pictures = MujocoPictures(env)
            pictures.fit(self._width)
            pictures.render()
            return env, pictures.followed
        return env, drawn_small(env, self._width) or draw

    def _next(self) -> tuple[int, int, Frame] | None:
        """What to draw next; None at the end."""
        with self._lock:
            while not self._asked and not self._closed.is_set():
                self._lock.wait()
            if self._closed.is_set():
                return None
            tile = min(self._asked, key=lambda each: self._drawn_s.get(each, 0.0))
            return tile, *self._asked.pop(tile)

    def _paint(
        self, tile: int, number: int, frame: Frame, env: Env, draw: Callable[[], object]
    ) -> None:
        assert frame.pose is not None
        now_s = self._since_s = time.monotonic()
        take_pose(env, frame.pose)
        picture = as_picture(draw(), self._width)
        self._since_s, self._limit_s = None, NEXT_S
        before_s = self._drawn_s.get(tile)
        fps = frame.fps if before_s is None else min(frame.fps, 1 / (now_s - before_s))
        self._drawn_s[tile] = now_s
        self._painted[tile] = number, frame._replace(picture=picture, fps=fps)

    def _leave_it(self, why: str) -> None:
        """Let env nodes draw for a while."""
        pause_s = self._pause_s
        self._again_s = time.monotonic() + pause_s
        self._pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        with self._lock:
            self._asked, self._painted = {}, {}
        text = "env nodes draw for the page for %g s: %s"
        logging.getLogger("fastloop").debug(text, pause_s, why)
