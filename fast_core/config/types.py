"""The configuration of a run: typed, immutable, checked before any process exists.

The YAML file mirrors these types one to one and states only what differs from the defaults.
Reading files and overrides is in `fast_core.config.file`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from fast_core.algorithm import LearnerSetup
from fast_core.config.environment_types import EnvironmentConfig
from fast_core.config.node_types import (
    PAGE,
    ExtraNodeConfig,
    NodesConfig,
    PolicyConfig,
    SupervisionConfig,
)
from fast_core.config.section import AlgorithmConfig, Count, Seconds, Section
from fast_core.config.watching_types import (
    CallbackConfig,
    DashboardConfig,
    DiagnosticsConfig,
    MetricsConfig,
)
from fast_core.errors import ConfigError

MOST_DEGREE = 1000


DEFAULT_STEPS = 32  # of a rollout, where rollout.steps is auto and there is no replay


def legacy_degree(buffer: int, batch: int) -> int:
    """The fixed off-policy degree of an older rule, of the rows of a buffer and of a batch."""
    return min(max(1, buffer // batch // 10), MOST_DEGREE)


class RolloutConfig(Section, frozen=True):
    """How much is collected for one ticket: shards x envs_per_shard x steps rows.

    Attributes:
        shards: Fixed sets of environments, at most 16384; results depend on it.
        envs_per_shard: Environments in each shard.
        steps: Steps of each environment in one rollout; auto is 32 for algorithms that learn from
            rollouts, and for replay so many that the hand-over between rounds is small beside the
            updates they grant, whatever the machine.
    """

    shards: Count = 2
    envs_per_shard: Count = 16
    steps: Count | Literal["auto"] = "auto"


class ReplayConfig(Section, frozen=True):
    """What algorithms that learn from replay store and draw.

    Attributes:
        capacity: Rows kept, shared evenly by all environments: one for each environment step, and
            one for the final observation of each episode.
        learning_starts: Environment steps collected before the first one grants updates.
        prioritized: Draw rows in proportion to their priorities instead of uniformly.
        alpha: A row's priority is (absolute error + epsilon) ** alpha.
        beta: Exponent of the importance weights at the start; it rises to 1 with the share of
            horizon_env_steps that has passed, and stays where there is none.
        epsilon: What keeps rows without error in the draw.
        slots: Batches of each optimizer that are drawn or in use at once. With 1 every draw waits
            for the priorities of the update before; with S it knows those of all but the last S -
            1, exactly, so that runs repeat.
    """

    capacity: Annotated[int, Meta(ge=1, le=10**12)] = 1_000_000
    learning_starts: Annotated[int, Meta(ge=0)] = 1_000
    prioritized: bool = False
    alpha: Annotated[float, Meta(ge=0, le=1)] = 0.6
    beta: Annotated[float, Meta(ge=0, le=1)] = 0.4
    epsilon: Annotated[float, Meta(gt=0)] = 1e-6
    slots: Count = 2


Fractional = Annotated[
    str, Meta(pattern="^[1-9][0-9]*/[1-9][0-9]*$", title="a fraction such as 1/3")
]


class SchedulerConfig(Section, frozen=True):
    """How far collection may run ahead of training.

    Attributes:
        off_policy_degree: Tickets collected ahead of training; 0 is strictly synchronous and bit
            for bit repeatable. -1 or auto: the run measures and chooses, and adjusts it while it
            trains. legacy-auto: max(1, (buffer // batch) // 10), of replay.capacity and
            algorithm.batch_size, or without replay of a ticket's rows and algorithm.minibatch_size.
        stragglers: What becomes of a rollout that is still being collected when the next ticket
            can't do without it, since rows would become older than the degree allows. wait:
            training waits for it. drop: it is counted in scheduler/rows_dropped, never trained on,
            and another one is collected in its place. At degree 0 nothing is late.
        max_auto_degree: Largest degree that off_policy_degree -1 may choose; memory is laid out for
            it. Lowered where its rollouts would take more than an eighth of what is free.
        replay_ratio: Optimizer steps per environment step with algorithms that learn from replay,
            carried exactly. Neither side runs ahead of it by more than off_policy_degree + 1
            rounds.
    """

    off_policy_degree: Annotated[
        Annotated[int, Meta(ge=-1, le=MOST_DEGREE)] | Literal["auto", "legacy-auto"],
        Meta(
            title=f"an integer from 0 to {MOST_DEGREE}, or -1 or 'auto' to let the run choose, or "
            "'legacy-auto'"
        ),
    ] = 0
    stragglers: Literal["wait", "drop"] = "wait"
    max_auto_degree: Annotated[int, Meta(ge=1, le=MOST_DEGREE)] = 16
    replay_ratio: Annotated[float, Meta(gt=0, le=1000)] | Fractional = 1.0

    @property
    def auto(self) -> bool:
        """Whether the run chooses the degree by itself."""
        return self.off_policy_degree in (-1, "auto")

    @property
    def ratio(self) -> Fraction:
        """``replay_ratio``; 0.1 is a tenth, not the nearest binary number."""
        return Fraction(str(self.replay_ratio))


class EvaluationConfig(Section, frozen=True):
    """Evaluation of immutable snapshots, without exploration.

    Attributes:
        every_env_steps: Environment steps between evaluations; null turns them off.
        episodes: Episodes of one evaluation, exactly.
        envs: Environments stepped together.
        max_episode_steps: Steps after which an evaluation episode is cut, only for environments
            without a time limit of their own.
        mode: async trains on meanwhile, and may evaluate a somewhat later version; sync evaluates
            that of its own moment and waits for the result.
        enable_async_eval: Older name of `mode`: true is async, false sync; null says nothing.
        attributes: Values of environment.attributes in evaluations: those of the configuration, so
            that scores compare, or what callbacks have made of them.
        at_end: Evaluate the last version too (only if evaluations are on).
        environments: Further environments that every evaluation plays in, by name: what differs
            from `environment`. kwargs and attributes are merged key by key, but not inherited by
            one with an id of its own.
        video_every: Every so many evaluations, film the first episode into `videos/` of the run
            directory; null films none. Needs the extra video.
        videos_kept: Newest videos to keep.
        score_on: Which of `environments` stop.score is about; null: `environment` itself.
    """

    every_env_steps: Count | None = 20_000
    episodes: Count = 20
    envs: Count = 20
    max_episode_steps: Count = 10_000
    mode: Literal["async", "sync"] = "async"
    enable_async_eval: bool | None = None
    attributes: Literal["configured", "current"] = "configured"
    at_end: bool = True
    environments: Annotated[
        dict[str, EnvironmentConfig],
        Meta(title="a group of names, each a group of keys of `environment`"),
    ] = {}
    video_every: Count | None = None
    videos_kept: Count = 20
    score_on: str | None = None

    @property
    def waits(self) -> bool:
        """Whether training waits for evaluations, whichever name says so."""
        return self.mode == "sync" or self.enable_async_eval is False


class CheckpointConfig(Section, frozen=True):
    """What is kept for resuming.

    Attributes:
        every_updates: Updates between checkpoints. The first one comes after a minute and the round
            that is open then, if not before, unless a callback has on_checkpoint. null writes only
            the last one.
        keep: Newest complete checkpoints to keep.
        best: Keep the policy with the best evaluation too.
        at_end: Write a checkpoint when the run ends in order.
        exact: What a resume does with open episodes. auto: reset and step them again, and begin new
            ones, which is said, where the environment gives something else. require: refuse to go
            on then. never: begin new ones at once.
        replay: Keep what the replay holds too. Without it a resumed run fills its replay anew,
            replay.learning_starts steps of it before it learns on.
    """

    every_updates: Count | None = 5_000
    keep: Count = 3
    best: bool = True
    at_end: bool = True
    exact: Literal["auto", "require", "never"] = "auto"
    replay: bool = True


class StopConfig(Section, frozen=True):
    """When the run is finished; whichever comes first. At least one must be set.

    Attributes:
        env_steps: Environment steps trained on.
        updates: Optimizer steps.
        time_s: Seconds since every node was ready.
        score: Mean return of an evaluation that counts as solved.
        score_held: Evaluations in a row that must reach the score.
    """

    env_steps: Count | None = None
    updates: Count | None = None
    time_s: Seconds | None = None
    score: float | None = None
    score_held: Count = 1


class MemoryConfig(Section, frozen=True):
    """Shared memory.

    Attributes:
        backing: auto takes a nameless memory file (memfd), or posix where there is none.
    """

    backing: Literal["auto", "posix", "memfd"] = "auto"


class Numbers(NamedTuple):
    """The first of the numbers that environments outside training have; see `RunConfig.numbers`."""

    evaluator: int
    film: int
    command: int
    probe: int
    trial: int


class RunConfig(Section, frozen=True, kw_only=True):
    """Everything that defines a run.

    Attributes:
        name: Name of the run; runs land in `<directory>/<name>/<time>_seed<seed>`.
        directory: Folder for run directories.
        seed: Every random stream derives from it.
        mode: process: every node its own process; inline: all in one, for debuggers.
        horizon_env_steps: Environment steps in which linear schedules fall to 0 and replay.beta
            rises to 1; null: the first stop.env_steps. A run that is continued keeps it, whatever
            stop.env_steps becomes.
        callbacks: What is told of the run's events and may act on them, in this order.
    """

    name: str
    directory: str = "runs"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    mode: Literal["process", "inline"] = "process"
    environment: EnvironmentConfig
    rollout: RolloutConfig = RolloutConfig()
    horizon_env_steps: Count | None = None
    replay: ReplayConfig = ReplayConfig()
    policy: PolicyConfig = PolicyConfig()
    algorithm: AlgorithmConfig
    nodes: NodesConfig = NodesConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    stop: StopConfig
    memory: MemoryConfig = MemoryConfig()
    metrics: MetricsConfig = MetricsConfig()
    callbacks: tuple[CallbackConfig, ...] = ()
    supervision: SupervisionConfig = SupervisionConfig()
    dashboard: DashboardConfig = DashboardConfig()
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()

    @property
    def added_nodes(self) -> tuple[ExtraNodeConfig, ...]:
        """Nodes that are none of training: those of ``nodes.extra``, then the page if any."""
        return (*self.nodes.extra, *((PAGE,) if self.dashboard.enabled else ()))

    @property
    def envs(self) -> int:
        """Environments that are stepped, in all shards."""
        return self.rollout.shards * self.rollout.envs_per_shard

    @property
    def numbers(self) -> Numbers:
        """Those of training count from 0; the evaluator's, commands', the probe's follow.

        The evaluator has `EvaluationConfig.envs` for each environment that it plays in, and one to
        film. Last come those that each env node tries before it is ready, one each.
        """
        evaluation = self.evaluation
        film = self.envs + evaluation.envs * (1 + len(evaluation.environments))
        command = film + (evaluation.video_every is not None)
        probe = command + evaluation.envs
        return Numbers(self.envs, film, command, probe, probe + 1)

    @property
    def steps(self) -> int:
        """Steps of a rollout.

        Raises:
            ConfigError: ``rollout.steps`` is auto for an algorithm that learns from replay, and
                the configuration was not resolved.
        """
        if self.rollout.steps != "auto":
            return self.rollout.steps
        if self.replays:
            raise ConfigError("rollout.steps is still 'auto'; resolve the configuration first")
        return DEFAULT_STEPS

    @property
    def learner_setup(self) -> LearnerSetup:
        """What a learner is built with; `steps` says what it raises."""
        rollout, optimizer = self.rollout, self.nodes.optimizer
        return LearnerSetup(
            seed=self.seed,
            shards=rollout.shards,
            envs_per_shard=rollout.envs_per_shard,
            steps=self.steps,
            device=optimizer.device,
            precision=optimizer.precision,
            compile=optimizer.compile,
        )

    @property
    def horizon(self) -> int | None:
        """Environment steps that schedules are spread over, None where nothing says how many."""
        return self.horizon_env_steps or self.stop.env_steps

    def progress(self, env_steps: int) -> float:
        """The share of `horizon` that has passed, at most 1; 0 where there is none."""
        return min(1.0, env_steps / self.horizon) if self.horizon else 0.0

    @property
    def degree(self) -> int:
        """The off-policy degree; the largest that may be in force where the run chooses it."""
        asked = self.scheduler.off_policy_degree
        if self.scheduler.auto:
            return self.scheduler.max_auto_degree
        return asked if isinstance(asked, int) else self._legacy_degree

    @property
    def batch_rows(self) -> int | None:
        """Rows of one optimizer step, None where the algorithm has no such key."""
        key = "batch_size" if self.replays else "minibatch_size"
        rows: object = getattr(self.algorithm, key, None)
        return rows if isinstance(rows, int) and rows > 0 else None

    @property
    def _legacy_degree(self) -> int:
        if self.batch_rows is None:  # refused by the rules
            return 1
        buffer = self.replay.capacity if self.replays else self.rows_per_ticket
        return legacy_degree(buffer, self.batch_rows)

    @property
    def replays(self) -> bool:
        """Whether the algorithm learns from replay."""
        return self.algorithm.learns_from == "replay"

    @property
    def rows_per_ticket(self) -> int:
        """Rows that one ticket collects and trains on; `steps` says what it raises."""
        return self.envs * self.steps
