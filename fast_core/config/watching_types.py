"""The keys of what watches a run: `metrics`, `dashboard`, `callbacks`, `diagnostics`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.config.section import Seconds, Section, Values


class CallbackConfig(Section, frozen=True, kw_only=True):
    """A callback; its name alone stands for one without arguments."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[
        str, Meta(description="Its class, as `package.module:Class`, or a function that makes one.")
    ]
    kwargs: Annotated[Values, Meta(description="Its arguments.")] = {}


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
