"""The keys of `environment`: which task, how it is made, wrapped and stepped."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.config.section import Count, Seconds, Section, Values


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


BACKENDS = ("gymnasium", "gymnasium_vector", "envpool")  # others are classes


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
        str,
        Meta(
            examples=[*BACKENDS, "package.module:Class"],
            description="gymnasium: environments of `gymnasium.make`, one after the other. "
            "gymnasium_vector: the environment's own vectorised form (`vector_entry_point`). "
            "envpool: EnvPool's C++ environments. Or a class of yours that steps many with one "
            "call, as `package.module:Class`.",
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

    @property
    def one_by_one(self) -> bool:
        """Whether `gymnasium.make` makes each; a library steps them with one call otherwise."""
        return self.backend == "gymnasium"
