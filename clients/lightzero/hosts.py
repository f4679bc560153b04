"""LightZero's collector, learner, game buffer and evaluator as `AsyncTrainer` wants them."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fast_core.clients.lightzero.library import Its, LightZero
from fast_core.clients.lightzero.recorder import Call, Recorder, replay
from fast_core.clients.lightzero.snapshots import Snapshots

_OWNING = 4  # the last pickle protocol of which arrays own their memory


@dataclass(frozen=True)
class Begun:
    """Where a run begins, which is not at 0 with a loaded checkpoint or random play before it."""

    train_iter: int = 0
    envstep: int = 0


@dataclass(frozen=True)
class Collection:
    """What one `collect` gave.

    Attributes:
        data: Game segments, and what is known of each.
        env_steps: Environment steps that it took.
        updates: Updates that it grants.
        at_random: Data of random play before it, None almost always.
        how: Temperature and epsilon.
        written: What it wrote to TensorBoard.
        packed: Whether both data are pickled. The buffer measures its arrays, which have to own
            their memory for that, and those of newer pickle protocols don't.
    """

    data: Its
    env_steps: int
    updates: int
    at_random: Its
    how: Mapping[str, float]
    written: Sequence[Call] = ()
    packed: bool = False

    def pack(self) -> Collection:
        """For another process."""
        data, at_random = (pickle.dumps(each, _OWNING) for each in (self.data, self.at_random))
        return dataclasses.replace(self, data=data, at_random=at_random, packed=True)

    def unpack(self) -> Collection:
        """What was packed, if it was."""
        if not self.packed:
            return self
        data, at_random = pickle.loads(self.data), pickle.loads(self.at_random)
        return dataclasses.replace(self, data=data, at_random=at_random, packed=False)


@dataclass(frozen=True)
class Evaluated:
    """What one `eval` gave beside whether to stop.

    Attributes:
        info: The evaluator's own.
        is_best: Whether it wants the policy saved as the best.
        train_iter: Updates before it.
        envstep: Environment steps before it.
        written: What it wrote to TensorBoard.
    """

    info: Any
    is_best: bool
    train_iter: int
    envstep: int
    written: Sequence[Call]


class Collector:
    """Acts with the learner's own policy."""

    def __init__(
        self, library: LightZero, cfg: Its, collector: Its, begun: Begun, recorder: Recorder | None
    ) -> None:
        """Wrap ``collector``; with a recorder all that it gives is for another process."""
        self._library, self._cfg, self._collector = library, cfg, collector
        self._begun, self._recorder = begun, recorder
        self._play_at_random: Callable[[], Its] | None = None

    def collect_kwargs(self, train_iter: int, envstep: int) -> dict[str, Any]:
        """What LightZero's loop gives `collect`."""
        train_iter += self._begun.train_iter
        envstep += self._begun.envstep
        given = self._library.collect_kwargs(self._cfg, train_iter, envstep)
        return {"train_iter": train_iter, "policy_kwargs": given}

    def collect(self, train_iter: int, policy_kwargs: Mapping[str, float]) -> Collection:
        """Collect once."""
        before, at_random = self._collector.envstep, None
        if self._play_at_random is not None:
            at_random, self._play_at_random = self._play_at_random(), None
        data = self._collector.collect(train_iter=train_iter, policy_kwargs=policy_kwargs)
        env_steps = self._collector.envstep - before
        updates = self._library.updates(self._cfg, data)
        given = Collection(data, env_steps, updates, at_random, policy_kwargs)
        if self._recorder is None:
            return given
        return dataclasses.replace(given, written=self._recorder.take()).pack()

    def count_env_steps(self, given: Collection) -> int:
        """Of one collection."""
        return given.env_steps

    def count_updates(self, given: Collection) -> int:
        """By LightZero's own rule."""
        return given.updates

    def close(self) -> None:
        """End its environments."""
        self._collector.close()


class OwnCollector(Collector):
    """Acts with a policy of its own."""

    def __init__(
        self,
        library: LightZero,
        cfg: Its,
        collector: Its,
        begun: Begun,
        recorder: Recorder | None,
        policy: Its,
        play_at_random: Callable[[], Its] | None = None,
    ) -> None:
        """Collect once more at random before the first time, if told how."""
        super().__init__(library, cfg, collector, begun, recorder)
        self._policy, self._play_at_random = policy, play_at_random

    def load_weights(self, state: Its, version: int) -> None:
        """Act with these from now on."""
        self._policy.collect_mode.load_state_dict({"model": state})
        self._library.forget(self._policy)


class Evaluator:
    """Evaluates the learner's own policy."""

    def __init__(
        self,
        evaluator: Its,
        save: Callable[[str], object] | None,
        begun: Begun,
        recorder: Recorder | None,
    ) -> None:
        """Wrap ``evaluator``; ``save`` saves the best, None tells that it is the best."""
        self._evaluator, self._save, self._begun, self._recorder = evaluator, save, begun, recorder

    def eval_kwargs(self, train_iter: int, envstep: int) -> dict[str, int]:
        """When it is."""
        train_iter += self._begun.train_iter
        return {"train_iter": train_iter, "envstep": envstep + self._begun.envstep}

    def eval(self, train_iter: int, envstep: int) -> tuple[bool, Evaluated]:
        """Whether to stop, and the rest."""
        best: list[str] = []
        stop, info = self._evaluator.eval(self._save or best.append, train_iter, envstep)
        written = self._recorder.take() if self._recorder is not None else []
        return bool(stop), Evaluated(info, bool(best), train_iter, envstep, written)

    def close(self) -> None:
        """End its environments."""
        self._evaluator.close()


class OwnEvaluator(Evaluator):
    """Evaluates with a policy of its own."""

    def __init__(
        self,
        library: LightZero,
        evaluator: Its,
        begun: Begun,
        recorder: Recorder | None,
        policy: Its,
    ) -> None:
        """Tell of the best, which who has the learner's state then saves."""
        super().__init__(evaluator, None, begun, recorder)
        self._library, self._policy, self._version = library, policy, 0

    def load_weights(self, state: Its, version: int) -> None:
        """Evaluate these from now on."""
        self._policy.eval_mode.load_state_dict({"model": state})
        self._library.forget(self._policy)
        self._version = version

    def eval_kwargs(self, train_iter: int, envstep: int) -> dict[str, int]:
        """It is about the version that it has, whatever the learner has done since."""
        return super().eval_kwargs(self._version, envstep)


class Buffer:
    """The game buffer, with reanalysis where LightZero's loop has it."""

    def __init__(
        self, library: LightZero, cfg: Its, buffer: Its, policy: Its, learner: Its, writer: Its
    ) -> None:
        """Wrap ``buffer``, from which ``learner`` trains ``policy``."""
        self._library, self._cfg = library, cfg
        self._buffer, self._policy, self._learner, self._writer = buffer, policy, learner, writer
        self.envstep = 0
        self._epochs = self._granted = self._update = 0

    def push(self, given: Collection) -> None:
        """Take a collection, and trim."""
        given = given.unpack()
        for data in (given.at_random, given.data):
            if data is not None:
                self._buffer.push_game_segments(data)
                self._buffer.remove_oldest_data_to_fit()
        self.envstep += given.env_steps
        self._granted += given.updates
        self._library.remember(self._policy, **given.how)
        replay(given.written, self._writer)

    def is_trainable(self) -> bool:
        """Whether it has more than a batch; asked once in each round, before the first update."""
        self._update = 0
        self._reanalyze()
        if self._library.has_enough(self._cfg, self._buffer, self.envstep):
            return True
        self.end_epoch()
        return False

    def sample(self) -> Its:
        """A batch with its targets."""
        if self._update:
            self._reanalyze()
        self._update += 1
        place = self._update - 1, self._learner.train_iter
        return self._library.sample(self._cfg, self._policy, self._buffer, *place)

    def update_priority(self, batch: Its, priorities: Its) -> None:
        """Of what was trained on."""
        self._buffer.update_priority(batch, priorities)

    def end_epoch(self) -> None:
        """All updates of a round are done."""
        self._library.forget(self._policy)
        self._epochs += 1
        self._granted = self._update = 0

    def _reanalyze(self) -> None:
        """Reanalyze if LightZero would before this update."""
        if not self._library.reanalyzes:
            return
        cfg = self._cfg.policy
        often = cfg.buffer_reanalyze_freq
        if often >= 1:
            due = bool(self._granted) and self._update % max(self._granted // often, 1) == 0
        else:
            due = self._update == 0 and self._library.reanalyzes_epoch(self._cfg, self._epochs)
        rows = self._buffer.get_num_of_transitions() // cfg.num_unroll_steps
        if due and rows > int(cfg.reanalyze_batch_size / cfg.reanalyze_partition):
            self._buffer.reanalyze_buffer(cfg.reanalyze_batch_size, self._policy)


class Learner:
    """Trains the policy that everybody acts with."""

    def __init__(self, cfg: Its, learner: Its, buffer: Buffer) -> None:
        """Wrap ``learner``."""
        self._cfg, self._learner, self._buffer = cfg.policy, learner, buffer
        self._updates = 0

    def train(self, batch: Its) -> None:
        """One update."""
        told = self._learner.train(batch, self._buffer.envstep)
        self._updates += 1
        if self._cfg.use_priority:
            self._buffer.update_priority(batch, told[0]["value_priority_orig"])

    def after_epoch(self) -> None:
        """A round is done."""
        self._buffer.end_epoch()


class PublishingLearner(Learner):
    """Trains a policy of its own, and gives copies of it away."""

    def __init__(
        self,
        cfg: Its,
        learner: Its,
        buffer: Buffer,
        policy: Its,
        snapshots: Snapshots,
    ) -> None:
        """``snapshots`` gets the whole state of what is given away."""
        super().__init__(cfg, learner, buffer)
        self._policy, self._snapshots = policy, snapshots

    def get_weights(self) -> dict[str, Any]:
        """The model's."""
        self._snapshots.publish(self._updates)
        model = self._policy.learn_mode.state_dict()["model"]
        return {name: each.cpu() for name, each in model.items()}


@dataclass(frozen=True)
class Place:
    """Where collectors and an evaluator have environments and policies of their own.

    Attributes:
        library: Where their parts come from.
        cfg: The whole configuration.
        model: What a policy is given as its model; None makes one.
        begun: Where the run begins.
        threads: Threads of torch in a process of its own; None in the caller's.
        writer: Of TensorBoard; None has what is written carried.
    """

    library: LightZero
    cfg: Its
    model: Its
    begun: Begun
    threads: int | None
    writer: Its

    def collector(self, rank: int, seed: int) -> OwnCollector:
        """The collector of a rank, a picklable factory; the first has the configuration's seed."""
        library, cfg = self.library, self.cfg
        own, recorder = self._settled(cfg.seed if rank == 0 else seed)
        envs, policy = library.environments(cfg, "collector", own), library.policy(cfg, self.model)
        collector = library.collector(cfg, policy, envs, self.writer or recorder, rank)
        at_random = None
        if rank == 0 and cfg.policy.random_collect_episode_num > 0:
            at_random = functools.partial(library.collect_at_random, cfg, policy, collector, envs)
        return OwnCollector(library, cfg, collector, self.begun, recorder, policy, at_random)

    def evaluator(self, rank: int, seed: int) -> OwnEvaluator:
        """Likewise an evaluator, with the configuration's seed."""
        library, cfg = self.library, self.cfg
        own, recorder = self._settled(cfg.seed)
        envs, policy = library.environments(cfg, "evaluator", own), library.policy(cfg, self.model)
        evaluator = library.evaluator(cfg, policy, envs, self.writer or recorder)
        return OwnEvaluator(library, evaluator, self.begun, recorder, policy)

    def _settled(self, seed: int) -> tuple[int, Recorder | None]:
        """Make a process of its own ready; the caller's is already."""
        seed %= 2**31  # what NumPy and simulators take
        if self.writer is not None:
            return seed, None
        self.library.seed(self.cfg, seed)
        if self.threads is not None:
            self.library.set_threads(self.threads)
        return seed, Recorder()
