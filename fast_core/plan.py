"""The plan of a run: everything a node must know, fixed before the first node starts.

The plan is made once by the launcher and handed to every node. Memory is laid out from it alone,
so every process computes the same offsets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fast_core.algorithm import Backend, Blueprint, LearnerSetup, PolicySetup, ReplaySpec
from fast_core.config import RunConfig
from fast_core.memory import replay_fields
from fast_core.spec import EnvironmentSpec, FieldSpec

OPTIMIZER = "optimizer-0"
REPLAY = "replay-0"
EVALUATOR = "evaluator-0"
METRICS = "metrics-0"


def optimizer_names(config: RunConfig) -> tuple[str, ...]:
    """Names of the optimizers, by rank; the first is `OPTIMIZER`."""
    return tuple(f"optimizer-{rank}" for rank in range(config.nodes.optimizer.count))


@dataclass(frozen=True)
class RunPlan:
    """What every node of a run is given.

    Attributes:
        config: The resolved configuration.
        environment: What the probe found out about the environment.
        run_directory: Absolute path of the run directory.
        env_nodes: Number of env nodes.
        threads: Threads of each learner.
        backend: Library of the policy's forward pass.
        policy_nodes: Number of policy nodes, 0 where policies act in the env nodes.
        checkpoint: Directory of the checkpoint to continue from, or None.
        continued_env_steps: Environment steps at which this run directory's metrics go on, None
            where they begin.
    """

    config: RunConfig
    environment: EnvironmentSpec
    run_directory: str
    env_nodes: int
    threads: int
    backend: Backend
    checkpoint: str | None = None
    policy_nodes: int = 0
    continued_env_steps: int | None = None

    @property
    def blueprint(self) -> Blueprint:
        """The algorithm's torch-free description."""
        return self.config.algorithm

    @property
    def learner_setup(self) -> LearnerSetup:
        """What the learner is built with."""
        rollout, optimizer = self.config.rollout, self.config.nodes.optimizer
        return LearnerSetup(
            seed=self.config.seed,
            shards=rollout.shards,
            envs_per_shard=rollout.envs_per_shard,
            steps=self.config.steps,
            device=optimizer.device,
            precision=optimizer.precision,
            compile=optimizer.compile,
        )

    def policy_setup(self, device: str = "cpu") -> PolicySetup:
        """What a policy is built with; it acts on the CPU except in policy nodes."""
        return PolicySetup(self.backend, device, self.config.policy.precision)

    @property
    def env_node_names(self) -> tuple[str, ...]:
        """Names of the env nodes, by rank."""
        return tuple(f"env-{rank}" for rank in range(self.env_nodes))

    @property
    def policy_node_names(self) -> tuple[str, ...]:
        """Names of the policy nodes, by rank; none where policies act in the env nodes."""
        return tuple(f"policy-{rank}" for rank in range(self.policy_nodes))

    def policy_node_of(self, shard: int) -> int:
        """Rank of the policy node that acts for ``shard``."""
        return shard % self.policy_nodes

    @property
    def groups(self) -> int:
        """Parts of a shard that take turns; one where the policy acts beside them."""
        envs = self.config.rollout.envs_per_shard
        return min(self.config.policy.groups, envs) if self.policy_nodes else 1

    def group_envs(self, group: int) -> range:
        """The environments of one group of any shard; sizes differ by at most one."""
        envs = self.config.rollout.envs_per_shard
        return range(group * envs // self.groups, (group + 1) * envs // self.groups)

    @property
    def evaluates(self) -> bool:
        """Whether the run has an evaluator."""
        return self.config.evaluation.every_env_steps is not None

    @property
    def saves(self) -> bool:
        """Whether the run writes checkpoints."""
        checkpoint = self.config.checkpoint
        return checkpoint.every_updates is not None or checkpoint.at_end

    @property
    def keeps_actions(self) -> bool:
        """Whether open episodes are to be stepped again when the run is resumed."""
        return self.environment.repeatable and self.config.checkpoint.exact != "never"

    @property
    def extra_node_names(self) -> tuple[str, ...]:
        """Names of the user's nodes, in the order of ``nodes.extra``."""
        return tuple(extra.node_name for extra in self.config.nodes.extra)

    @property
    def node_names(self) -> tuple[str, ...]:
        """Every node; its place here is its row in doorbells and statistics."""
        evaluator = (EVALUATOR,) if self.evaluates else ()
        replay = (REPLAY,) if self.replays else ()
        acting = (*self.env_node_names, *self.policy_node_names)
        own = (*acting, *replay, *self.optimizer_names, *evaluator, METRICS)
        return (*own, *self.extra_node_names)

    # --- learning from replay ------------------------------------------------------------------

    @property
    def replays(self) -> bool:
        """Whether the run learns from replay."""
        return self.config.replays

    @property
    def optimizers(self) -> int:
        """Number of optimizers."""
        return self.config.nodes.optimizer.count

    @property
    def optimizer_names(self) -> tuple[str, ...]:
        """Names of the optimizers, by rank; the first publishes, reports and is evaluated."""
        return optimizer_names(self.config)

    @property
    def averages(self) -> bool:
        """Whether several optimizers take every step together."""
        return self.optimizers > 1 and self.config.nodes.optimizer.update == "allreduce"

    @property
    def replay_spec(self) -> ReplaySpec:
        """What one optimizer step draws."""
        return self.blueprint.replay()

    @property
    def rows_per_log(self) -> int:
        """Rows of each environment that the replay keeps, final observations included."""
        return -(-self.config.replay.capacity // self.config.envs)

    @property
    def rows_per_burst(self) -> int:
        """Most rows of one environment that are written while no step is drawn.

        A step of each row may end an episode, which takes two rows. So many tickets as the degree
        allows are ahead, and where the ratio is small some pass that grant no step.
        """
        scheduler = self.config.scheduler
        granted = scheduler.ratio * self.config.rows_per_ticket
        tickets = scheduler.off_policy_degree + max(1, math.ceil(1 / granted))
        return 2 * self.config.steps * tickets

    def replay_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of a replay log."""
        return replay_fields(self.environment.row, self.blueprint.action_field(self.environment))

    @property
    def rows_per_batch(self) -> int:
        """Rows of one batch slot: each optimizer's share where they average."""
        rows = self.replay_spec.batch_size
        return rows // self.optimizers if self.averages else rows

    @property
    def batch_slots(self) -> int:
        """Batch slots of each optimizer."""
        return self.config.replay.slots

    def batch_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of a batch slot, as `fast_core.memory.ReplayArrays` has them.

        ``row`` and ``log`` name each window's first row.
        """
        seen, action = self.environment.observation, self.blueprint.action_field(self.environment)
        return (
            FieldSpec("obs", seen.shape, seen.dtype, "rollout"),
            FieldSpec("next_obs", seen.shape, seen.dtype, "rollout"),
            FieldSpec("action", action.shape, action.dtype, "rollout"),
            FieldSpec("reward", (), "float32", "rollout"),
            FieldSpec("discount", (), "float32", "rollout"),
            FieldSpec("weight", (), "float32", "rollout"),
            FieldSpec("log", (), "int32", "rollout"),
            FieldSpec("row", (), "int64", "rollout"),
        )

    def gradient_fields(self) -> tuple[FieldSpec, ...]:
        """What one of several optimizers tells the others.

        At most ``P`` numbers of the gradient count; the digest of what all must have alike is
        zero where it was not computed.
        """
        size = self.blueprint.exchanged(self.environment)
        gradient = FieldSpec("gradient", (size,), "float32", "rollout")
        return (gradient, FieldSpec("digest", (32,), "uint8", "rollout"))

    @property
    def gradient_boxes(self) -> int:
        """Mailboxes of each optimizer's gradients: two in turn where all read all of them."""
        return 2 if self.averages else 1

    @property
    def networks_nbytes(self) -> int:
        """Bytes of all parameters and all targets."""
        return 2 * 4 * self.blueprint.exchanged(self.environment)

    def result_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of what an optimizer answers to a batch: the absolute errors of its rows."""
        return (FieldSpec("priority", (), "float32", "rollout"),)

    @property
    def slots_per_shard(self) -> int:
        """Rollout slots of a shard: one being trained on and one per ticket of asynchrony."""
        return self.config.scheduler.off_policy_degree + 1

    def rollout_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of a rollout; `fast_core.algorithm.ShardRollout` says what they hold."""
        row, frames = self.environment.row, self.environment.frames
        state_size = self.blueprint.state_size(self.environment)
        age = (FieldSpec("frame_age", (), "uint8", axes="T+1"),) if frames > 1 else ()
        state = (FieldSpec("state", (state_size,), "float32", "rollout"),) if state_size else ()
        return (
            FieldSpec("obs", row.shape, row.dtype, axes="T+1", history=frames - 1),
            self.blueprint.action_field(self.environment),
            FieldSpec("behaviour_log_prob", (), "float32"),
            FieldSpec("reward", (), "float32"),
            FieldSpec("terminated", (), "bool"),
            FieldSpec("truncated", (), "bool"),
            FieldSpec("quarantined", (), "bool"),
            FieldSpec("final_obs", row.shape, row.dtype),
            FieldSpec("policy_version", (), "int64"),
            *age,
            *state,
        )

    def request_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of what a group of environments asks a policy node with."""
        seen, noise = self.environment.observation, self.blueprint.noise(self.environment)
        return (
            FieldSpec("obs", seen.shape, seen.dtype, "rollout"),
            FieldSpec("noise", noise.shape, "float32", "rollout"),
            *self._memory_field(),
        )

    def reply_fields(self) -> tuple[FieldSpec, ...]:
        """The columns of what a policy node answers.

        ``environment_action`` is what the environments take, so that env nodes need no policy.
        """
        stored = self.blueprint.action_field(self.environment)
        taken = self.environment.action
        return (
            FieldSpec("action", stored.shape, stored.dtype, "rollout"),
            FieldSpec("behaviour_log_prob", (), "float32", "rollout"),
            FieldSpec("environment_action", taken.shape, taken.dtype, "rollout"),
            *self._memory_field(),
        )

    def _memory_field(self) -> tuple[FieldSpec, ...]:
        size = self.blueprint.state_size(self.environment)
        return (FieldSpec("state", (size,), "float32", "rollout"),) if size else ()
