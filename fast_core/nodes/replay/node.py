"""The replay node: draws the batches that tickets grant, ahead of the optimizers."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from fast_core.errors import FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import Command, Noted, Ready, Save, Saved, Train
from fast_core.nodes.node import SHORT_NS, Node, NodeContext, NodeState
from fast_core.nodes.replay.background_save import BackgroundSave
from fast_core.nodes.replay.batch_slots import FilledSlots
from fast_core.nodes.replay.draws import Draws, Replay
from fast_core.nodes.replay.moments import GrantedSteps
from fast_core.nodes.replay.views import FollowedViews, RecordedViews, make_views
from fast_core.run.replay_files import ReplaySave, holds_rows, restore_rows, restore_state
from fast_core.run.structures import rows_per_burst

FIGURES_EVERY = 16  # batches
EMPTY_LIMIT = 1000  # tickets in a row
_BATCHES, _EMPTY = int(StatsColumn.BATCHES), int(StatsColumn.EMPTY_BATCHES)


class ReplayNode(Node):
    """Draws as many steps as were granted, each as soon as there is a free place for it.

    Concurrency: the only writer of all batch slots; reads the logs and the results. It waits for
    nobody: an optimizer rings when it has answered a batch.
    """

    consumes = frozenset({Train, Save})
    emits = frozenset({Ready, Noted, Saved})
    reads = frozenset({"replay", "results", "moments", "priorities", "carried", "side"})
    writes = frozenset({"batches", "replay", "moments", "priorities", "carried", "side"})

    def __init__(self, context: NodeContext) -> None:
        """Attach memory and make what draws."""
        super().__init__(context)
        plan, memory = context.plan, context.memory
        self._logs = [memory.replay_log(shard) for shard in range(plan.config.rollout.shards)]
        ranks = range(plan.optimizers)
        slots = [FilledSlots(plan, memory, rank) for rank in ranks]
        self.replay = Replay(plan, self._logs, slots, memory)
        self._orders: deque[Train] = deque()
        self._left = 0  # steps of the oldest order that are not drawn
        self._empty = 0  # orders in a row for which nothing could be drawn
        self._save: Save | None = None
        self._saving: ReplaySave | None = None
        self._background: BackgroundSave | None = None
        self._views: RecordedViews | FollowedViews | None = None

    def setup(self) -> None:
        """Go on where the one before died, or put back what a checkpoint holds."""
        if self.context.life > 1:
            self.replay.take_over()
            self.context.stats.words[_BATCHES] = sum(group.steps for group in self.replay.groups)
            return
        if self.context.plan.checkpoint is not None:
            self._restore(Path(self.context.plan.checkpoint))
        self.replay.begin()
        self._views = make_views(self.context, self.replay.reader, self._logs)

    def _restore(self, directory: Path) -> None:
        if holds_rows(directory):
            restore_rows(directory, self._logs)
        self.replay.load(restore_state(directory))
        self.replay.write_figures(self.context.stats)

    def handle(self, command: Command) -> None:
        """Note what is granted, or that a part of a checkpoint is asked for."""
        match command:
            case Train(granted=0):  # the replay only fills
                self.replay.write_figures(self.context.stats)
            case Train(ticket, granted=granted):
                place = self.replay.place
                if ticket < place.ticket or (ticket == place.ticket and not place.left):
                    return  # all of it was drawn by the node before
                self._orders.append(command)
                if len(self._orders) == 1:
                    self._left = place.left if ticket == place.ticket else granted
            case Save():
                self._abandon()
                self._save = command

    def work(self) -> bool:
        """Draw a step for all who have a free place, and write a piece of a checkpoint."""
        drew = False
        for index, group in enumerate(self.replay.groups):
            if self._orders and group.ready and not self._endangered and self._may_draw(index):
                self._draw(index, group)
                drew = True
        if not drew:
            self._rest()
        return self._note_cut() or self._write() or drew

    def _rest(self) -> None:
        """Show that nothing can be drawn, and whether a checkpoint is on its way to the disk."""
        writes = self._background is not None
        state = NodeState.WRITING if writes else NodeState.WAITING
        if self._state != state:
            doing = "writing a checkpoint" if writes else "waiting for work"
            self.enter(state, doing, least_ns=SHORT_NS)

    def _may_draw(self, group: int) -> bool:
        return self._views is None or self._views.may_draw(group)

    # --- batches -------------------------------------------------------------------------------

    def _draw(self, index: int, group: Draws) -> None:
        if self._state != NodeState.DRAWING:
            self.enter(NodeState.DRAWING, "drawing batches", least_ns=SHORT_NS)
        order, self._left = self._orders[0], self._left - 1
        rows = self.context.plan.config.rows_per_ticket
        place = GrantedSteps(order.ticket, self._left)
        drawn = self.replay.draw(group, order.env_steps + rows, place)
        if self._views is not None:  # at once: to count rows is to look at the logs anew
            self._views.drawn(index, time.monotonic())
        words = self.context.stats.words
        words[_BATCHES] += 1
        words[_EMPTY] += not drawn
        self._works[self._state] += 1
        if words[_BATCHES] % FIGURES_EVERY == 0:
            self.replay.write_figures(self.context.stats, group if drawn else None)
        if not self._left:
            self._orders.popleft()
            self._left = self._orders[0].granted if self._orders else 0
            self._count_order(empty=not drawn)

    def _count_order(self, *, empty: bool) -> None:
        """Don't go on for ever without learning anything.

        Raises:
            FastLoopError: There was nothing to draw for too long.
        """
        self._empty = self._empty + 1 if empty else 0
        if self._empty >= EMPTY_LIMIT:
            steps = self.context.plan.replay_spec.ahead
            raise FastLoopError(
                f"{EMPTY_LIMIT} rounds in a row granted optimizer steps, and there was nothing to "
                f"draw from the replay: it holds no window of {steps} steps (algorithm.n_step). "
                "Nothing is kept of steps that give NaN or infinite values; "
                "environment.nonfinite=fail shows where they come from"
            )

    # --- checkpoints ---------------------------------------------------------------------------

    @property
    def _endangered(self) -> bool:
        """Whether rows that are being saved might be overwritten before the next draw.

        Env nodes wait for steps that are not drawn, so that nothing of a checkpoint is lost,
        however slow the disk is.
        """
        saving = self._saving
        return saving is not None and saving.margin < rows_per_burst(self.context.plan)

    def _note_cut(self) -> bool:
        """Note what is to be saved, as soon as nothing is on its way."""
        command = self._save
        if command is None or self._orders or not self.replay.idle:
            return False
        self._save = None
        rows = self.context.plan.config.checkpoint.replay
        with self.state(NodeState.SAVING, f"noting checkpoint {command.checkpoint}"):
            state = self.replay.state(rows=rows)
            logs = self._logs if rows else ()
            try:
                self._saving = ReplaySave(command.checkpoint, Path(command.directory), state, logs)
            except OSError as error:
                self.report_unsaved(command.checkpoint, error)
                return True
        if self.context.plan.config.mode == "process":
            self._background = BackgroundSave(self._saving, self.context.doorbell.ring)
        self.context.channel.send(Noted(self.context.name, command.checkpoint))
        return True

    def _write(self) -> bool:
        saving = self._saving
        if saving is None:
            return False
        try:
            if self._background is not None:
                if not self._background.finished:
                    return False
            else:
                with self.state(NodeState.SAVING, f"writing checkpoint {saving.checkpoint}"):
                    if saving.write():
                        return True
        except OSError as error:
            self._abandon()
            self.report_unsaved(saving.checkpoint, error)
            return True
        self._saving = self._background = None
        if saving.missing:
            self.context.log.warning(
                "checkpoint %d lacks %d rows of the replay: the env nodes wrote faster than they "
                "could be saved",
                saving.checkpoint,
                saving.missing,
            )
        self.context.channel.send(Saved(self.context.name, saving.checkpoint, saving.files))
        return True

    def _abandon(self) -> None:
        saving, self._saving = self._saving, None
        background, self._background = self._background, None
        if background is not None:
            background.close()
        elif saving is not None:
            saving.close()

    def close(self) -> None:
        """Let go of half-written files."""
        self._abandon()
        if self._views is not None:
            self._views.close()

    def failure_context(self) -> dict[str, str]:
        """How far it is."""
        steps = sum(group.steps for group in self.replay.groups)
        return {"steps drawn": str(steps), "tickets open": str(len(self._orders))}
