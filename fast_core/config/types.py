"""The configuration of a run: typed, immutable, checked before any process exists.

The YAML file mirrors these types one to one and states only what differs from the defaults.
Reading files and overrides is in `fast_core.config.file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from fast_core.algorithm import Blueprint, LearnerSetup
from fast_core.errors import ConfigError

Values = dict[str, Any]  # whatever YAML can hold, for code that is not ours
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
MOST_DEGREE = 1000
DEFAULT_STEPS = 32  # of a rollout, where rollout.steps is auto and there is no replay


def legacy_degree(buffer: int, batch: int) -> int:
    """The fixed off-policy degree of an older rule, of the rows of a buffer and of a batch."""
    return min(max(1, buffer // batch // 10), MOST_DEGREE)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every group of keys; a key that is not a field is refused.

    Attributes:
        shorthand: The key that a text stands for where a list has it in place of a group.
    """

    shorthand: ClassVar[str] = ""


class AlgorithmConfig(Section, Blueprint, frozen=True, kw_only=True):
    """Base of every algorithm's own configuration type: its keys, and what a run asks of it.

    Attributes:
        came_later: What runs did that were made before a key existed: their own configuration
            has every key but those.
    """

    came_later: ClassVar[Mapping[str, object]] = {}

    name: Annotated[str, Meta(description="Registered algorithm, or `package.module:Class`.")]


class AtariConfig(Section, frozen=True):
    """The standard preprocessing of Atari games (Machado et al. 2018, arXiv:1709.06009)."""

    frame_skip: Annotated[
        Count, Meta(description="Emulator frames per step; the last two are merged by maximum.")
    ] = 4
    noop_max: Annotated[
        int, Meta(ge=0, description="Most actions without effect at the start of an episode.")
    ] = 30
    screen_size: Annotated[Count, Meta(description="Width and height of a frame.")] = 84
    grayscale: Annotated[bool, Meta(description="One channel instead of three.")] = True
    terminal_on_life_loss: Annotated[
        bool,
        Meta(
            description="A lost life ends the episode, as terminated; the game goes on. "
            "Evaluations play whole games, each life begun as in training."
        ),
    ] = False
    fire_on_reset: Annotated[
        bool, Meta(description="Press fire first where the game waits for it.")
    ] = True
    clip_rewards: Annotated[
        bool,
        Meta(
            description="Train on the reward's sign; returns reported while training are of "
            "signs too. Evaluations count the game's own score."
        ),
    ] = False
    repeat_action_probability: Annotated[
        float, Meta(ge=0, lt=1, description="Chance that the emulator repeats the last action.")
    ] = 0.0


class WrapperConfig(Section, frozen=True, kw_only=True):
    """A wrapper; its name alone stands for one without arguments."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[
        str, Meta(description="Its class, as `package.module:Class`, or a function of that kind.")
    ]
    kwargs: Annotated[
        Values, Meta(description="Its arguments beside the environment; `{number}` as above.")
    ] = {}


class CallbackConfig(Section, frozen=True, kw_only=True):
    """A callback; its name alone stands for one without arguments."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[
        str, Meta(description="Its class, as `package.module:Class`, or a function that makes one.")
    ]
    kwargs: Annotated[Values, Meta(description="Its arguments.")] = {}


class EnvironmentConfig(Section, frozen=True, kw_only=True):
    """What is stepped."""

    id: Annotated[
        str,
        Meta(
            description="Gymnasium environment id, a class as `package.module:Class`, or EnvPool's "
            "task id."
        ),
    ]
    backend: Annotated[
        Literal["gymnasium", "gymnasium_vector", "envpool"],
        Meta(
            description="gymnasium: environments of `gymnasium.make`, one after the other. "
            "gymnasium_vector: the environment's own vectorised form (`vector_entry_point`). "
            "envpool: EnvPool's C++ environments."
        ),
    ] = "gymnasium"
    frame_skip: Annotated[
        Count, Meta(description="Steps with the same action per step; rewards are added up.")
    ] = 1
    frame_stack: Annotated[
        Count,
        Meta(description="Successive observations that the policy sees together; stored once."),
    ] = 1
    action_mask: Annotated[
        str | None,
        Meta(
            description="Where the environment says which actions are allowed: a key of its Dict "
            "observation, or `info.KEY`; null where all always are."
        ),
    ] = None
    atari: Annotated[
        AtariConfig | None, Meta(description="Preprocessing of an ALE game; null for none.")
    ] = None
    kwargs: Annotated[
        Values,
        Meta(
            description="Arguments of `gymnasium.make`, any YAML. `{number}` stands for a number "
            "that no other environment of the run has, and `{6100 + number}` counts from there."
        ),
    ] = {}
    wrappers: Annotated[
        tuple[WrapperConfig, ...],
        Meta(description="Wrappers, the innermost first, in training, evaluations and play alike."),
    ] = ()
    modules: Annotated[
        tuple[str, ...],
        Meta(description="Modules to import first, for instance ones that register environments."),
    ] = ()
    pickled: Annotated[
        str | None,
        Meta(
            description="File beside the configuration that holds an environment given as a "
            "Python object, written by `train()` of Python (docs/python.md). It is code, and "
            "making the environment executes it."
        ),
    ] = None
    reset_options: Annotated[
        Values | None,
        Meta(description="Options passed to every reset, automatic ones included."),
    ] = None
    attributes: Annotated[
        Values,
        Meta(
            description="Attributes of the environment, or of a wrapper, that are set before every "
            "reset; callbacks may change them for the episodes to come."
        ),
    ] = {}
    info: Annotated[
        tuple[str, ...],
        Meta(
            description="Numbers of the info of an episode's last step to show: names such as "
            "`is_success`. Those of its group `episode` are always shown."
        ),
    ] = ()
    no_reward_timeout_steps: Annotated[
        Count | None,
        Meta(
            description="Steps in a row without a reward other than 0 after which an episode is "
            "cut off, as truncated; null for never. Evaluations are cut in the same way."
        ),
    ] = None
    no_reward_penalty: Annotated[
        float,
        Meta(
            ge=-1e6,
            le=0,
            description="Added to the reward of the step in which no_reward_timeout_steps cuts an "
            "episode, while training; no evaluation counts it.",
        ),
    ] = 0.0
    step_timeout_s: Annotated[
        Seconds | None,
        Meta(
            description="Longest a single reset or step may take, in seconds, or a close while "
            "the environment is tried out; null waits for ever."
        ),
    ] = 60.0
    nonfinite: Annotated[
        Literal["quarantine", "fail"],
        Meta(
            description="When an observation or reward is NaN or infinite: cut the episode at the "
            "last good observation and count it, or end the run."
        ),
    ] = "quarantine"
    nonfinite_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Largest share of the last 100 training episodes that may be cut for NaN "
            "or infinity; beyond it the run ends.",
        ),
    ] = 0.5


class RolloutConfig(Section, frozen=True):
    """How much is collected for one ticket: shards x envs_per_shard x steps rows."""

    shards: Annotated[
        Count, Meta(description="Fixed sets of environments, at most 16384; results depend on it.")
    ] = 2
    envs_per_shard: Annotated[Count, Meta(description="Environments in each shard.")] = 16
    steps: Annotated[
        Count | Literal["auto"],
        Meta(
            description="Steps of each environment in one rollout; auto is 32 for algorithms that "
            "learn from rollouts, and for replay so many that the hand-over between rounds is "
            "small beside the updates they grant, whatever the machine."
        ),
    ] = "auto"


class ReplayConfig(Section, frozen=True):
    """What algorithms that learn from replay store and draw."""

    capacity: Annotated[
        int,
        Meta(
            ge=1,
            le=10**12,
            description="Rows kept, shared evenly by all environments: one for each environment "
            "step, and one for the final observation of each episode.",
        ),
    ] = 1_000_000
    learning_starts: Annotated[
        int,
        Meta(ge=0, description="Environment steps collected before the first one grants updates."),
    ] = 1_000
    prioritized: Annotated[
        bool,
        Meta(description="Draw rows in proportion to their priorities instead of uniformly."),
    ] = False
    alpha: Annotated[
        float,
        Meta(ge=0, le=1, description="A row's priority is (absolute error + epsilon) ** alpha."),
    ] = 0.6
    beta: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Exponent of the importance weights at the start; it rises to 1 with the "
            "share of horizon_env_steps that has passed, and stays where there is none.",
        ),
    ] = 0.4
    epsilon: Annotated[
        float, Meta(gt=0, description="What keeps rows without error in the draw.")
    ] = 1e-6
    slots: Annotated[
        Count,
        Meta(
            description="Batches of each optimizer that are drawn or in use at once. With 1 every "
            "draw waits for the priorities of the update before; with S it knows those of all "
            "but the last S - 1, exactly, so that runs repeat."
        ),
    ] = 2


class PolicyConfig(Section, frozen=True):
    """Where and how actions are computed, and what of it is there already."""

    begins_from: Annotated[
        str | None,
        Meta(
            description="What a new run begins with in place of first values: the networks and "
            "observation statistics of a run (its newest checkpoint), of one checkpoint, or of a "
            "policy's file, of equal spaces and network."
        ),
    ] = msgspec.field(default=None, name="from")
    loaded: Annotated[
        Values | None,
        Meta(description="What `from` was when the run was launched; FastLoop writes it."),
    ] = None
    placement: Annotated[
        Literal["env", "node", "auto"],
        Meta(
            description="env: next to the environments, no process is woken per step. node: in "
            "policy nodes, which batch the requests of many env nodes. auto measures both."
        ),
    ] = "env"
    backend: Annotated[
        Literal["auto", "numpy", "torch"],
        Meta(
            description="Library of the policy's forward pass; auto takes numpy unless the "
            "network has convolutions, or policies act in bf16 or on another device than the CPU."
        ),
    ] = "auto"
    precision: Annotated[
        Literal["fp32", "bf16"], Meta(description="Of the policy's forward pass in torch.")
    ] = "fp32"
    groups: Annotated[
        Count,
        Meta(
            description="Parts of a shard that take turns with placement node: while one waits "
            "for its actions, another steps. More than envs_per_shard count as that many."
        ),
    ] = 2
    measured: Annotated[
        dict[str, float] | None,
        Meta(description="What placement auto measured; FastLoop writes it."),
    ] = None


class EnvNodesConfig(Section, frozen=True):
    """The processes that step environments."""

    count: Annotated[
        Count | Literal["auto"],
        Meta(
            description="Number of env nodes; auto takes the cores granted, at most one per shard."
        ),
    ] = "auto"
    balance: Annotated[
        bool,
        Meta(
            description="Move shards from env nodes that take long for a rollout to others while "
            "the run goes on, where nodes share the machine with other work or environments differ "
            "in speed. A shard that moves begins new episodes, so results depend on timing."
        ),
    ] = False


class PolicyNodesConfig(Section, frozen=True):
    """The processes that act for env nodes, with policy.placement node."""

    count: Annotated[Count, Meta(description="Number of policy nodes; shards are shared out.")] = 1
    threads: Annotated[
        Count | Literal["auto"],
        Meta(description="Threads of each; auto takes one, or what env nodes leave idle."),
    ] = "auto"
    device: Annotated[str, Meta(description="Torch device: cpu, cuda, cuda:1, ...")] = "cpu"
    max_batch: Annotated[
        Count | None,
        Meta(
            description="Most rows of one forward pass above off_policy_degree 0; null takes "
            "all that wait. At degree 0 every group has a forward pass of its own."
        ),
    ] = None
    balance: Annotated[
        bool,
        Meta(
            description="Let shards come from policy nodes that take long to act to others while "
            "the run goes on, where nodes share the machine with other work. At degree 0 results "
            "stay the same."
        ),
    ] = False


class ExtraNodeConfig(Section, frozen=True, kw_only=True):
    """A node of your own; its class alone stands for one without settings."""

    shorthand: ClassVar[str] = "node"

    node: Annotated[str, Meta(description="Its class, as `package.module:Class`.")]
    name: Annotated[
        str | None, Meta(description="Its name; the class's name in lower case by default.")
    ] = None
    settings: Annotated[Values, Meta(description="What the node reads its own keys from.")] = {}

    @property
    def node_name(self) -> str:
        """Its name in the run."""
        return self.name or self.node.rpartition(":")[2].rpartition(".")[2].lower()


# The page is a node like those of a user; it stands here where it is served.
PAGE = ExtraNodeConfig(node="fast_core.dashboard.node:Dashboard", name="dashboard")


class OptimizerNodeConfig(Section, frozen=True):
    """The processes that learn."""

    count: Annotated[
        Count,
        Meta(description="Optimizers; more than one needs an algorithm that learns from replay."),
    ] = 1
    update: Annotated[
        Literal["allreduce", "async"],
        Meta(
            description="How more than one works together. allreduce: each differentiates its "
            "share of a batch and all take the same averaged step. async: each differentiates a "
            "batch of its own, and the first one applies the gradients as they come."
        ),
    ] = "allreduce"
    collective: Annotated[
        Literal["auto", "shared", "gloo", "nccl"],
        Meta(
            description="What averages gradients with update allreduce. shared: FastLoop's shared "
            "memory. gloo, nccl: torch.distributed. auto takes nccl on CUDA devices, else shared."
        ),
    ] = "auto"
    max_gradient_staleness: Annotated[
        int | None,
        Meta(
            description="With update async: most steps committed between the parameters that a "
            "gradient was computed at and its own step; faster optimizers wait for slower ones "
            "to keep it. null: count - 1."
        ),
    ] = None
    threads: Annotated[
        Count | Literal["auto"],
        Meta(description="Threads of each learner; auto takes one unless an update is large."),
    ] = "auto"
    device: Annotated[str, Meta(description="Torch device: cpu, cuda, cuda:1, ...")] = "cpu"
    precision: Annotated[
        Literal["fp32", "bf16"],
        Meta(description="Of the network's passes in torch; parameters stay float32."),
    ] = "fp32"
    compile: Annotated[
        bool, Meta(description="Run the update under torch.compile; falls back where none works.")
    ] = False


class NodesConfig(Section, frozen=True):
    """The processes of the run."""

    env: EnvNodesConfig = EnvNodesConfig()
    policy: PolicyNodesConfig = PolicyNodesConfig()
    optimizer: OptimizerNodeConfig = OptimizerNodeConfig()
    extra: Annotated[
        tuple[ExtraNodeConfig, ...],
        Meta(
            description="Nodes of your own; those that take rollouts do so in this order, before "
            "they are trained on."
        ),
    ] = ()


class SchedulerConfig(Section, frozen=True):
    """How far collection may run ahead of training."""

    off_policy_degree: Annotated[
        Annotated[int, Meta(ge=-1, le=MOST_DEGREE)] | Literal["auto", "legacy-auto"],
        Meta(
            title=f"an integer from 0 to {MOST_DEGREE}, or -1 or 'auto' to let the run choose, or "
            "'legacy-auto'",
            description="Tickets collected ahead of training; 0 is strictly synchronous and "
            "bit for bit repeatable. -1 or auto: the run measures and chooses, and adjusts it "
            "while it trains. legacy-auto: max(1, (buffer // batch) // 10), of replay.capacity and "
            "algorithm.batch_size, or without replay of a ticket's rows and "
            "algorithm.minibatch_size.",
        ),
    ] = 0
    stragglers: Annotated[
        Literal["wait", "drop"],
        Meta(
            description="What becomes of a rollout that is still being collected when the next "
            "ticket can't do without it, since rows would become older than the degree allows. "
            "wait: training waits for it. drop: it is counted in scheduler/rows_dropped, never "
            "trained on, and another one is collected in its place. At degree 0 nothing is late."
        ),
    ] = "wait"
    max_auto_degree: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST_DEGREE,
            description="Largest degree that off_policy_degree -1 may choose; memory is laid out "
            "for it. Lowered where its rollouts would take more than an eighth of what is free.",
        ),
    ] = 16
    replay_ratio: Annotated[
        Annotated[float, Meta(gt=0, le=1000)]
        | Annotated[str, Meta(pattern="^[1-9][0-9]*/[1-9][0-9]*$", title="a fraction such as 1/3")],
        Meta(
            description="Optimizer steps per environment step with algorithms that learn from "
            "replay, carried exactly. Neither side runs ahead of it by more than "
            "off_policy_degree + 1 rounds.",
        ),
    ] = 1.0

    @property
    def auto(self) -> bool:
        """Whether the run chooses the degree by itself."""
        return self.off_policy_degree in (-1, "auto")

    @property
    def ratio(self) -> Fraction:
        """``replay_ratio``; 0.1 is a tenth, not the nearest binary number."""
        return Fraction(str(self.replay_ratio))


class EvaluationConfig(Section, frozen=True):
    """Evaluation of immutable snapshots, without exploration."""

    every_env_steps: Annotated[
        Count | None,
        Meta(description="Environment steps between evaluations; null turns them off."),
    ] = 20_000
    episodes: Annotated[Count, Meta(description="Episodes of one evaluation, exactly.")] = 20
    envs: Annotated[Count, Meta(description="Environments stepped together.")] = 20
    max_episode_steps: Annotated[
        Count,
        Meta(
            description="Steps after which an evaluation episode is cut, only for environments "
            "without a time limit of their own."
        ),
    ] = 10_000
    mode: Annotated[
        Literal["async", "sync"],
        Meta(
            description="async trains on meanwhile, and may evaluate a somewhat later version; "
            "sync evaluates that of its own moment and waits for the result."
        ),
    ] = "async"
    enable_async_eval: Annotated[
        bool | None,
        Meta(description="Older name of `mode`: true is async, false sync; null says nothing."),
    ] = None
    attributes: Annotated[
        Literal["configured", "current"],
        Meta(
            description="Values of environment.attributes in evaluations: those of the "
            "configuration, so that scores compare, or what callbacks have made of them."
        ),
    ] = "configured"
    at_end: Annotated[
        bool, Meta(description="Evaluate the last version too (only if evaluations are on).")
    ] = True
    environments: Annotated[
        dict[str, EnvironmentConfig],
        Meta(
            title="a group of names, each a group of keys of `environment`",
            description="Further environments that every evaluation plays in, by name: what "
            "differs from `environment`. kwargs and attributes are merged key by key, but not "
            "inherited by one with an id of its own.",
        ),
    ] = {}
    video_every: Annotated[
        Count | None,
        Meta(
            description="Every so many evaluations, film the first episode into `videos/` of the "
            "run directory; null films none. Needs the extra video."
        ),
    ] = None
    videos_kept: Annotated[Count, Meta(description="Newest videos to keep.")] = 20
    score_on: Annotated[
        str | None,
        Meta(
            description="Which of `environments` stop.score is about; null: `environment` itself."
        ),
    ] = None

    @property
    def waits(self) -> bool:
        """Whether training waits for evaluations, whichever name says so."""
        return self.mode == "sync" or self.enable_async_eval is False


class CheckpointConfig(Section, frozen=True):
    """What is kept for resuming."""

    every_updates: Annotated[
        Count | None,
        Meta(
            description="Updates between checkpoints. The first one comes after a minute and the "
            "round that is open then, if not before, unless a callback has on_checkpoint. null "
            "writes only the last one."
        ),
    ] = 5_000
    keep: Annotated[Count, Meta(description="Newest complete checkpoints to keep.")] = 3
    best: Annotated[bool, Meta(description="Keep the policy with the best evaluation too.")] = True
    at_end: Annotated[bool, Meta(description="Write a checkpoint when the run ends in order.")] = (
        True
    )
    exact: Annotated[
        Literal["auto", "require", "never"],
        Meta(
            description="What a resume does with open episodes. auto: reset and step them again, "
            "and begin new ones, which is said, where the environment gives something else. "
            "require: refuse to go on then. never: begin new ones at once."
        ),
    ] = "auto"
    replay: Annotated[
        bool,
        Meta(
            description="Keep what the replay holds too. Without it a resumed run fills its replay "
            "anew, replay.learning_starts steps of it before it learns on."
        ),
    ] = True


class StopConfig(Section, frozen=True):
    """When the run is finished; whichever comes first. At least one must be set."""

    env_steps: Annotated[Count | None, Meta(description="Environment steps trained on.")] = None
    updates: Annotated[Count | None, Meta(description="Optimizer steps.")] = None
    time_s: Annotated[Seconds | None, Meta(description="Seconds since every node was ready.")] = (
        None
    )
    score: Annotated[
        float | None, Meta(description="Mean return of an evaluation that counts as solved.")
    ] = None
    score_held: Annotated[
        Count, Meta(description="Evaluations in a row that must reach the score.")
    ] = 1


class MemoryConfig(Section, frozen=True):
    """Shared memory."""

    backing: Annotated[
        Literal["auto", "posix", "memfd"],
        Meta(
            description="auto takes a nameless memory file (memfd), or posix where there is none."
        ),
    ] = "auto"


class SinkConfig(Section, frozen=True, kw_only=True):
    """A sink of metrics; its name alone stands for one without arguments."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[
        str,
        Meta(
            description="`tensorboard`, `wandb`, or a class of your own as `package.module:Class`."
        ),
    ]
    kwargs: Annotated[
        Values, Meta(description="Its arguments; those of `wandb` are `wandb.init`'s.")
    ] = {}


class MetricsConfig(Section, frozen=True):
    """What is written while training."""

    interval_s: Annotated[Seconds, Meta(description="Seconds between rows of metrics.")] = 1.0
    sinks: Annotated[
        tuple[SinkConfig, ...],
        Meta(description="Where rows go beside `metrics.jsonl`; a sink never holds training up."),
    ] = (SinkConfig(name="tensorboard"),)
    tensorboard: Annotated[
        bool, Meta(description="false leaves `tensorboard` out of the sinks.")
    ] = True
    end_timeout_s: Annotated[
        Seconds,
        Meta(
            description="What sinks may take to finish, for uploads say, when the run has ended; "
            "before that as long again to start, where a short run is over sooner."
        ),
    ] = 10.0

    @property
    def used_sinks(self) -> tuple[SinkConfig, ...]:
        """The sinks that are used."""
        return tuple(s for s in self.sinks if self.tensorboard or s.name != "tensorboard")


class RestartsConfig(Section, frozen=True):
    """Deaths of nodes that the run survives: each is started anew and goes on.

    Beyond them a death ends the run with its first cause. Runs in one process (`mode: inline`)
    have no nodes that could die alone.
    """

    env: Annotated[
        int,
        Meta(
            ge=0,
            description="Deaths of env nodes, in all. What was being collected is dropped, "
            "counted and ordered anew, and the shards go on with new episodes.",
        ),
    ] = 0
    policy: Annotated[int, Meta(ge=0, description="Deaths of policy nodes, in all.")] = 0
    replay: Annotated[
        int,
        Meta(
            ge=0,
            description="Deaths of the replay node; its successor goes on with what it held. "
            "Priorities lie in shared memory then.",
        ),
    ] = 0
    evaluator: Annotated[
        int,
        Meta(ge=0, description="Deaths of the evaluator; it plays the evaluation once more."),
    ] = 0
    optimizer: Annotated[
        int,
        Meta(
            ge=0,
            description="Deaths of optimizers, in all: the whole run goes back to its newest "
            "checkpoint, or begins once more where there is none.",
        ),
    ] = 0
    backoff_s: Annotated[
        Seconds,
        Meta(
            description="Wait before a node is started anew the second time, and twice as long "
            "each time after that; the first time there is none. It begins again once the node "
            "has lived for max_backoff_s."
        ),
    ] = 0.5
    max_backoff_s: Annotated[Seconds, Meta(description="Longest wait.")] = 30.0
    on_error: Annotated[
        Literal["end", "restart"],
        Meta(
            description="What an error that a node raises is, an environment's say: end of the "
            "run, or restart: a death like others, for simulators that fail now and then."
        ),
    ] = "end"


class SupervisionConfig(Section, frozen=True):
    """Limits on waiting for nodes."""

    start_timeout_s: Annotated[
        Seconds,
        Meta(
            description="Until every node must be ready; longest that imports, the constructor "
            "and the first reset of an environment may take. Where one took more than a second, "
            "a node has twice that besides for each that it makes."
        ),
    ] = 120.0
    heartbeat_timeout_s: Annotated[
        Seconds,
        Meta(
            description="Silence of a node's process that counts as a failure. A thread of the "
            "native core gives the sign of life, so a long call is none, whatever it holds."
        ),
    ] = 30.0
    work_timeout_s: Annotated[
        Seconds | None,
        Meta(
            description="Longest that anything else of a node may take in which no counter of it "
            "moves: an update of the learner, a forward pass, a checkpoint, a call of a node of "
            "your own. The first time of each kind may take all of it, since something may be "
            "compiled or tuned; null waits for ever, the next times too."
        ),
    ] = 600.0
    repeat_timeout_s: Annotated[
        Seconds,
        Meta(
            description="Likewise, from the second time of each kind on. Where that is more, a "
            "node may take 20 times the longest so far, or twice the first, instead, but never "
            "more than work_timeout_s. Both also limit how long a run may stand still, in which "
            "something is owed, nothing comes and no node is at work."
        ),
    ] = 120.0
    restarts: RestartsConfig = RestartsConfig()
    env_restarts: Annotated[
        int,
        Meta(ge=0, description="Older name of `restarts.env`; 0 says nothing."),
    ] = 0
    save_s: Annotated[
        Seconds,
        Meta(
            description="For a last checkpoint after Ctrl-C, or three times what a round took "
            "where that is more; then it ends without one. Time counts from the last progress: "
            "bytes written, a round trained on, or a step on replay. A second Ctrl-C ends at once."
        ),
    ] = 1.0
    grace_s: Annotated[
        Seconds,
        Meta(
            description="From asking a node to stop until it is killed; the time that closing its "
            "environments may take."
        ),
    ] = 2.5

    @property
    def env_deaths(self) -> int:
        """Deaths of env nodes that the run survives, whichever name says so."""
        return max(self.env_restarts, self.restarts.env)


class DashboardConfig(Section, frozen=True):
    """The page that shows a run while it trains (`--dashboard`)."""

    enabled: Annotated[
        bool,
        Meta(
            description="Serve the page, and make the environments of its tiles able to draw "
            "(render_mode rgb_array)."
        ),
    ] = False
    host: Annotated[
        str,
        Meta(description="Address to serve at; any but this machine's own needs a token."),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(ge=0, le=65535, description="Port to serve at, or the next free one; 0: any."),
    ] = 8420
    hosts: Annotated[
        tuple[str, ...],
        Meta(description="Further names that browsers may ask for it by, those of a proxy say."),
    ] = ()
    tiles: Annotated[
        int,
        Meta(
            ge=1,
            le=32,
            description="Environments that can be watched, at most; one of each shard first.",
        ),
    ] = 8
    evaluation: Annotated[bool, Meta(description="Show an environment of evaluations too.")] = True
    fps: Annotated[
        float, Meta(ge=0.5, le=30, description="Frames a second of each tile that is watched.")
    ] = 5.0
    width: Annotated[
        int,
        Meta(
            ge=64,
            le=1024,
            description="Pictures that are wider or higher, in pixels, are made smaller.",
        ),
    ] = 320
    cpu_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of its time that a node spends on drawing, at most, and of a core "
            "the page where it waits for one; beyond it there are fewer frames a second.",
        ),
    ] = 0.03


class DiagnosticsConfig(Section, frozen=True):
    """Switches for tests and for finding faults; all off by default."""

    digests: Annotated[
        bool, Meta(description="Write a SHA-256 of the learner's whole state after every ticket.")
    ] = False
    schedule: Annotated[
        bool,
        Meta(
            description="Record in which order things happened, so that `fastloop rerun` can run "
            "it again, bit for bit, in one process."
        ),
    ] = False
    delay_ms: Annotated[
        float,
        Meta(ge=0, description="Every node sleeps a random time up to this before each task."),
    ] = 0.0


class Numbers(NamedTuple):
    """The first of the numbers that environments outside training have; see `RunConfig.numbers`."""

    evaluator: int
    film: int
    command: int
    probe: int
    trial: int


class RunConfig(Section, frozen=True, kw_only=True):
    """Everything that defines a run."""

    name: Annotated[
        str,
        Meta(description="Name of the run; runs land in `<directory>/<name>/<time>_seed<seed>`."),
    ]
    directory: Annotated[str, Meta(description="Folder for run directories.")] = "runs"
    seed: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="Every random stream derives from it.")
    ] = 0
    mode: Annotated[
        Literal["process", "inline"],
        Meta(description="process: every node its own process; inline: all in one, for debuggers."),
    ] = "process"
    environment: EnvironmentConfig
    rollout: RolloutConfig = RolloutConfig()
    horizon_env_steps: Annotated[
        Count | None,
        Meta(
            description="Environment steps in which linear schedules fall to 0 and replay.beta "
            "rises to 1; null: the first stop.env_steps. A run that is continued keeps it, "
            "whatever stop.env_steps becomes."
        ),
    ] = None
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
    callbacks: Annotated[
        tuple[CallbackConfig, ...],
        Meta(description="What is told of the run's events and may act on them, in this order."),
    ] = ()
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
