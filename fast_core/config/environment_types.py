"""The keys of `environment`: which task, how it is made, wrapped and stepped."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.config.section import Count, Seconds, Section, Values


class AtariConfig(Section, frozen=True):
    """The standard preprocessing of Atari games (Machado et al. 2018, arXiv:1709.06009).

    Attributes:
        frame_skip: Emulator frames per step; the last two are merged by maximum.
        noop_max: Most actions without effect at the start of an episode.
        screen_size: Width and height of a frame.
        grayscale: One channel instead of three.
        terminal_on_life_loss: A lost life ends the episode, as terminated; the game goes on.
            Evaluations play whole games, each life begun as in training.
        fire_on_reset: Press fire first where the game waits for it.
        clip_rewards: Train on the reward's sign; returns reported while training are of signs too.
            Evaluations count the game's own score.
        repeat_action_probability: Chance that the emulator repeats the last action.
    """

    frame_skip: Count = 4
    noop_max: Annotated[int, Meta(ge=0)] = 30
    screen_size: Count = 84
    grayscale: bool = True
    terminal_on_life_loss: bool = False
    fire_on_reset: bool = True
    clip_rewards: bool = False
    repeat_action_probability: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class WrapperConfig(Section, frozen=True, kw_only=True):
    """A wrapper; its name alone stands for one without arguments.

    Attributes:
        name: Its class, as `package.module:Class`, or a function of that kind.
        kwargs: Its arguments beside the environment; `{number}` as above.
    """

    shorthand: ClassVar[str] = "name"

    name: str
    kwargs: Values = {}


BACKENDS = ("gymnasium", "gymnasium_vector", "envpool")  # others are classes


class EnvironmentConfig(Section, frozen=True, kw_only=True):
    """What is stepped.

    Attributes:
        id: Gymnasium environment id, a class as `package.module:Class`, or EnvPool's task id.
        backend: gymnasium: environments of `gymnasium.make`, one after the other. gymnasium_vector:
            the environment's own vectorised form (`vector_entry_point`). envpool: EnvPool's C++
            environments. Or a class of yours that steps many with one call, as
            `package.module:Class`.
        frame_skip: Steps with the same action per step; rewards are added up.
        frame_stack: Successive observations that the policy sees together; stored once.
        action_mask: Where the environment says which actions are allowed: a key of its Dict
            observation, or `info.KEY`; null where all always are.
        atari: Preprocessing of an ALE game; null for none.
        kwargs: Arguments of `gymnasium.make`, any YAML. `{number}` stands for a number that no
            other environment of the run has, and `{6100 + number}` counts from there.
        wrappers: Wrappers, the innermost first, in training, evaluations and play alike.
        modules: Modules to import first, for instance ones that register environments.
        pickled: File beside the configuration that holds an environment given as a Python object,
            written by `train()` of Python (docs/python.md). It is code, and making the environment
            executes it.
        reset_options: Options passed to every reset, automatic ones included.
        attributes: Attributes of the environment, or of a wrapper, that are set before every reset;
            callbacks may change them for the episodes to come.
        info: Numbers of the info of an episode's last step to show: names such as `is_success`.
            Those of its group `episode` are always shown.
        no_reward_timeout_steps: Steps in a row without a reward other than 0 after which an episode
            is cut off, as truncated; null for never. Evaluations are cut in the same way.
        no_reward_penalty: Added to the reward of the step in which no_reward_timeout_steps cuts an
            episode, while training; no evaluation counts it.
        step_timeout_s: Longest a single reset or step may take, in seconds, or a close while the
            environment is tried out; null waits for ever.
        nonfinite: When an observation or reward is NaN or infinite: cut the episode at the last
            good observation and count it, or end the run.
        nonfinite_share: Largest share of the last 100 training episodes that may be cut for NaN or
            infinity; beyond it the run ends.
    """

    id: str
    backend: Annotated[str, Meta(examples=[*BACKENDS, "package.module:Class"])] = "gymnasium"
    frame_skip: Count = 1
    frame_stack: Count = 1
    action_mask: str | None = None
    atari: AtariConfig | None = None
    kwargs: Values = {}
    wrappers: tuple[WrapperConfig, ...] = ()
    modules: tuple[str, ...] = ()
    pickled: str | None = None
    reset_options: Values | None = None
    attributes: Values = {}
    info: tuple[str, ...] = ()
    no_reward_timeout_steps: Count | None = None
    no_reward_penalty: Annotated[float, Meta(ge=-1e6, le=0)] = 0.0
    step_timeout_s: Seconds | None = 60.0
    nonfinite: Literal["quarantine", "fail"] = "quarantine"
    nonfinite_share: Annotated[float, Meta(ge=0, le=1)] = 0.5

    @property
    def one_by_one(self) -> bool:
        """Whether `gymnasium.make` makes each; a library steps them with one call otherwise."""
        return self.backend == "gymnasium"
