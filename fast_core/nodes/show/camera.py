"""Takes frames of the environments of a node that somebody watches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.drawable import Drawable, NotYet, Present
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.envs.drawing.random_states import RandomStates
from fast_core.envs.playing.rendering import mujoco_advice
from fast_core.memory import StatsColumn, Trace, WeightBoard
from fast_core.monitor.screens.pace import Pace
from fast_core.monitor.screens.picture import NoPicture, Picture, as_drawn
from fast_core.nodes.node import NodeContext
from fast_core.nodes.show.drawer import Drawer, Returned
from fast_core.run.frame import Frame
from fast_core.run.structures import frame_layout
from fast_core.run.tiles import Tile, tiles
from fast_core.run.watching import WATCHING, Watching
from fast_core.system import forks
from fast_core.system.crowding import Crowding
from fast_core.system.text import encodable, error_text

# The first picture of an environment may load drivers and compile shaders, on a busy machine.
FIRST_S, NEXT_S = 15.0, 3.0
TRIES = 5
_TRY_AGAIN_NS = 1_000_000_000  # after the first failure; twice as long after each more
_LOOK_NS = 50_000_000
_SOON_NS = 200_000_000
# Where rollouts follow each other in this time it is enough to look in one step of each. A look in
# every step takes some 2 us: a thirtieth of a step of eight quick environments.
_OFTEN_NS = 50_000_000
_GOLDEN = 0.618  # so that the one step is another each time
_PROGRESS = int(StatsColumn.PROGRESS)
_PUT_BACK = "render() draws from random number generators of the run; they are put back each time"

Step = Callable[..., None]


class Source(Protocol):
    """Environments by their places: an `EnvBatch`, or a `Runner`."""

    def present(self, place: int) -> Present | None:
        """Where one is; None while it plays no episode."""
        ...

    def drawable(self, place: int) -> Drawable:
        """What draws one."""
        ...


class Scene(NamedTuple):
    """What policy and environments are about to do.

    Attributes:
        obs: ``[B, ...]``, what the policy saw.
        action: ``[B, ...]``, what it did, as environments take it.
        state: ``[B, S]``, what a recurrent policy remembered before; None without.
        version: Version of the policy.
        incarnation: That of the shard.
    """

    obs: Array
    action: Array
    state: NDArray[np.float32] | None
    version: int
    incarnation: int


@dataclass
class Shot:
    """A tile that this node shows.

    Attributes:
        tile: Its place on the screen.
        place: Of its environment in the source.
        board: Where its frames lie.
        number: Number of the next frame.
        drawn: Whether `Drawable.render` was ever called apart.
        hopeless: Why there will be no picture any more; empty while there may be.
        failures: How often in a row there was none.
        note: What there is to say of its pictures.
        again_ns: When drawing is tried again after a failure.
    """

    tile: Tile
    place: int
    board: WeightBoard
    number: int = field(init=False)
    drawn: bool = False
    hopeless: str = ""
    failures: int = 0
    note: str = ""
    again_ns: int = 0

    def __post_init__(self) -> None:
        self.number = self.board.version() + 1  # goes on after whoever wrote before
        self.note = self.hopeless


class Studio:
    """What the cameras of a node share.

    Attributes:
        viewers: The words in which each viewer says what it wants.
        pace: Says which tile is due.
        crowding: How scarce cores are.
        drawer: The thread that draws.
        width: Most pixels of a picture in each direction.
        layout: How a frame lies on its board.
        room: Where frames are packed.
        first_s: How long the first picture of an environment may take.
        hanging: Tiles whose `render` did not come back, and what to say of that.
        drawn_elsewhere: Tiles that all who want them draw themselves, where they have a pose.
    """

    def __init__(self, context: NodeContext, viewers: Sequence[str]) -> None:
        """``viewers`` are the names of the structures in which they say what they want."""
        config = context.plan.config
        let_draw_without_screen()
        memory, self._context = context.memory, context
        self._tiles = tiles(config)
        self.viewers = [Watching(memory.at(Trace, name).words) for name in viewers]
        self.pace = Pace(config.dashboard.cpu_share, (tile.number for tile in self._tiles))
        self.crowding = Crowding()
        self.drawer = Drawer(f"draws-{context.name}", self._turn)
        self.width = config.dashboard.width
        self.layout = frame_layout(context.plan)
        self.room = bytearray(self.layout.nbytes)
        self.first_s = FIRST_S
        self.hanging: dict[int, str] = {}
        self.drawn_elsewhere: set[int] = set()
        self._held: set[int] = set()
        self._looked_ns = 0
        self._said: set[str] = set()

    @classmethod
    def of(cls, context: NodeContext) -> Studio | None:
        """That of a node; None in a run in which nobody can watch."""
        viewers = [row.name for row in context.plan.own if row.family == WATCHING]
        return cls(context, viewers) if viewers and tiles(context.plan.config) else None

    def draws(self, shard: int | None) -> frozenset[int]:
        """Environments of a shard, or of the evaluator, that are tiles."""
        return frozenset(tile.env for tile in self._tiles if tile.shard == shard)

    def camera(
        self, shard: int | None, envs: range, source: Source, config: EnvironmentConfig
    ) -> Camera | None:
        """What takes frames of these environments of a shard; None where none is a tile."""
        memory = self._context.memory
        shots = [
            Shot(
                tile,
                tile.env - envs.start,
                memory.frames(tile.number),
                hopeless=self.hanging.get(tile.number, ""),
            )
            for tile in self._tiles
            if tile.shard == shard and tile.env in envs
        ]
        self._held.update(shot.tile.number for shot in shots)
        return Camera(self, shots, source, config) if shots else None

    def let_go(self, tiles: Iterable[int]) -> None:
        """These are shown no more by this node."""
        for tile in tiles:
            self._held.discard(tile)
            self.pace.want(tile, 0)

    def look(self, now_ns: int) -> None:
        """Read what viewers want, now and then."""
        if now_ns - self._looked_ns < _LOOK_NS:
            return
        self._looked_ns = now_ns
        for tile in self._held:
            wanted = {viewer: viewer.interval_ns(tile, now_ns) for viewer in self.viewers}
            wanted = {viewer: interval_ns for viewer, interval_ns in wanted.items() if interval_ns}
            self.pace.want(tile, min(wanted.values(), default=0))
            if all(viewer.draws for viewer in wanted):
                self.drawn_elsewhere.add(tile)
            else:
                self.drawn_elsewhere.discard(tile)

    def say(self, tile: Tile, what: str) -> None:
        """Log it, once of all tiles."""
        if what not in self._said:
            self._said.add(what)
            self._context.log.warning("%s: %s", _name(tile), what)

    def close(self) -> None:
        """End the thread."""
        self.drawer.close()

    def _turn(self) -> None:
        """Show that this node is not what hangs."""
        self._context.stats.words[_PROGRESS] += 1


class Camera:
    """Takes frames of some environments that are stepped together.

    Nothing of the run depends on it: it reads what is there, and random numbers that drawing took
    are put back.
    """

    def __init__(
        self, studio: Studio, shots: Sequence[Shot], source: Source, config: EnvironmentConfig
    ) -> None:
        """Use `Studio.camera`."""
        self._by_tile = {shot.tile.number: shot for shot in shots}
        self._studio, self._source, self._config = studio, source, config
        self._viewers = tuple(viewer.words for viewer in studio.viewers)
        self._next_ns = 0
        self._rollout_ns = 0  # when the last rollout began
        self._at = 0.0  # where in it there was a look

    def stepping(
        self,
        step: Step,
        steps: int,
        seen: Callable[[int], Array],
        state: NDArray[np.float32] | None,
        version: Callable[[int], int],
        incarnation: int,
    ) -> list[Step]:
        """What takes each of the ``steps`` of a rollout: ``step``, with a look before it.

        Where rollouts follow each other quickly that is so in one step only, and nowhere if nobody
        watches. ``seen`` and ``version`` give what the policy saw in a step, and its version.
        """
        now_ns = time.monotonic_ns()
        since_ns, self._rollout_ns = now_ns - self._rollout_ns, now_ns
        taken = [step] * steps
        if since_ns < _SOON_NS and not self.watched:
            return taken
        viewers, due, number = self._viewers, self.due, 0

        def watched(action: Array, **results: Array) -> None:
            nonlocal number
            for words in viewers:
                if words[0] and (shots := due()):
                    scene = Scene(seen(number), action, state, version(number), incarnation)
                    self.take(shots, scene)
            number += 1
            step(action, **results)

        if since_ns >= _OFTEN_NS:
            return [watched] * steps
        self._at = (self._at + _GOLDEN) % 1
        number = int(self._at * steps)
        taken[number] = watched
        return taken

    @property
    def watched(self) -> bool:
        """Whether there is anybody who may want frames."""
        return any(words[0] for words in self._viewers)

    def due(self) -> list[Shot]:
        """The tiles of which a frame is due now."""
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:
            return []
        pace = self._studio.pace
        self._studio.look(now_ns)
        due = pace.due(self._by_tile, now_ns)
        look_ns, soon_ns = now_ns + _LOOK_NS, pace.next_ns(self._by_tile)
        self._next_ns = 0 if due else look_ns if soon_ns is None else min(soon_ns, look_ns)
        return [self._by_tile[tile] for tile in due]

    def take(self, shots: Iterable[Shot], scene: Scene) -> None:
        """Publish a frame of each, as far as there is time for them all."""
        studio = self._studio
        crowded = studio.crowding.factor()
        for shot in shots:
            began_ns, hopeless = time.monotonic_ns(), shot.hopeless
            if not studio.pace.due((shot.tile.number,), began_ns):
                continue
            computed_ns = time.process_time_ns()
            try:
                self._take(shot, scene, began_ns)
            except Exception as error:  # the run must not end for a picture
                shot.hopeless = shot.note = f"no picture: taking it raised {error_text(error)}"
                studio.say(shot.tile, shot.note)
            took_ns = time.monotonic_ns() - began_ns
            # A thread that has just been woken gets a core before those that compute all the time.
            # So where cores are scarce, drawing takes more from stepping than the time it lasts.
            cost_ns = max(took_ns, round(crowded * (time.process_time_ns() - computed_ns)))
            again = shot.hopeless == hopeless
            studio.pace.took(shot.tile.number, began_ns, cost_ns, again=again)

    def _take(self, shot: Shot, scene: Scene, now_ns: int) -> None:
        present = self._source.present(shot.place)
        if present is None:
            return
        studio, place, tile = self._studio, shot.place, shot.tile
        pose = self._pose(shot)
        picture = self._picture(shot, now_ns) if pose is None else None
        frame = Frame(
            taken_ns=now_ns,
            shard=-1 if tile.shard is None else tile.shard,
            env=tile.env,
            episode=present.episode,
            seed=present.seed,
            step=present.step,
            version=scene.version,
            incarnation=scene.incarnation,
            total=present.total,
            fps=studio.pace.fps(tile.number),
            note=shot.note,
            picture=None if isinstance(picture, str) else picture,
            text=picture if isinstance(picture, str) else "",
            obs=scene.obs[place],
            action=scene.action[place],
            state=np.zeros(0, np.float32) if scene.state is None else scene.state[place],
            pose=pose,
        )
        studio.layout.pack(frame, studio.room)
        shot.board.publish(shot.number, studio.room)
        shot.number += 1

    # --- pictures ------------------------------------------------------------------------------

    def _pose(self, shot: Shot) -> NDArray[np.float64] | None:
        """What its viewers draw it from, if they do."""
        if shot.tile.shard is None or shot.tile.number not in self._studio.drawn_elsewhere:
            return None
        pose = self._source.drawable(shot.place).pose
        return None if pose is None else pose()

    def _picture(self, shot: Shot, now_ns: int) -> Picture | str | None:
        """The picture or the text, or None; the shot's note says why."""
        if shot.hopeless or now_ns < shot.again_ns:
            return None
        drawable, studio = self._source.drawable(shot.place), self._studio
        if drawable.why_not:
            shot.hopeless = shot.note = f"no picture: {drawable.why_not}"
            return None
        limit_s = NEXT_S if shot.drawn else studio.first_s
        if not shot.drawn:
            drawable.fit(studio.width)
        shot.drawn = drawable.apart
        kept = RandomStates(drawable.parts)
        outcome = self._draw(drawable, limit_s)
        moved = kept.put_back()
        if not outcome.returned:
            studio.first_s = NEXT_S
            note = f"no picture: render() did not return within {limit_s:g} s"
            shot.hopeless = shot.note = studio.hanging[shot.tile.number] = note
            studio.say(shot.tile, note)
            drawable.leave()
            return None
        if outcome.error is not None:
            self._failed(shot, outcome.error)
            return None
        shot.failures = 0
        if moved:
            studio.say(shot.tile, _PUT_BACK)
        shot.note = _PUT_BACK if moved or shot.note == _PUT_BACK else ""
        return outcome.value

    def _draw(self, drawable: Drawable, limit_s: float) -> Returned[Picture | str]:
        drawer, width = self._studio.drawer, self._studio.width
        if drawable.apart:
            return drawer.call(lambda: as_drawn(drawable.render(), width), limit_s)
        try:
            return Returned(as_drawn(drawable.render(), width), None)
        except Exception as error:  # an environment may raise anything
            forks.leave_if_copy(error)
            return Returned(None, error)

    def _failed(self, shot: Shot, error: BaseException) -> None:
        shot.again_ns = time.monotonic_ns() + (_TRY_AGAIN_NS << shot.failures)
        if isinstance(error, NotYet):
            shot.note = f"no picture yet: {error}"
            return
        shot.failures += 1
        if isinstance(error, NoPicture):
            shot.note = f"no picture: {error}"
        else:
            advice = mujoco_advice(self._config)
            shot.note = f"no picture: render() raised {encodable(error_text(error))}.{advice}"
        self._studio.say(shot.tile, shot.note)
        if shot.failures == TRIES:
            shot.hopeless = shot.note

    def close(self, close_rest: Callable[[], None]) -> None:
        """Close environments that were drawn where they were drawn, then the others.

        Raises:
            Exception: The first error of a close.
        """
        first: BaseException | None = None
        for shot in self._by_tile.values():
            if shot.drawn and shot.tile.number not in self._studio.hanging:
                outcome = self._studio.drawer.call(self._source.drawable(shot.place).close)
                first = first or outcome.error
        self._studio.let_go(self._by_tile)
        close_rest()
        if first is not None:
            raise first


def _name(tile: Tile) -> str:
    if tile.shard is None:
        return f"environment {tile.env} of evaluations"
    return f"environment {tile.env} of shard {tile.shard}"
