"""The keys of what watches a run: `metrics`, `dashboard`, `callbacks`, `diagnostics`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.config.section import Seconds, Section, Values


class CallbackConfig(Section, frozen=True, kw_only=True):
    """A callback; its name alone stands for one without arguments.

    Attributes:
        name: Its class, as `package.module:Class`, or a function that makes one.
        kwargs: Its arguments.
    """

    shorthand: ClassVar[str] = "name"

    name: str
    kwargs: Values = {}


class SinkConfig(Section, frozen=True, kw_only=True):
    """A sink of metrics; its name alone stands for one without arguments.

    Attributes:
        name: `tensorboard`, `wandb`, or a class of your own as `package.module:Class`.
        kwargs: Its arguments; those of `wandb` are `wandb.init`'s.
    """

    shorthand: ClassVar[str] = "name"

    name: str
    kwargs: Values = {}


class MetricsConfig(Section, frozen=True):
    """What is written while training.

    Attributes:
        interval_s: Seconds between rows of metrics.
        sinks: Where rows go beside `metrics.jsonl`; a sink never holds training up.
        tensorboard: false leaves `tensorboard` out of the sinks.
        end_timeout_s: What sinks may take to finish, for uploads say, when the run has ended;
            before that as long again to start, where a short run is over sooner.
    """

    interval_s: Seconds = 1.0
    sinks: tuple[SinkConfig, ...] = (SinkConfig(name="tensorboard"),)
    tensorboard: bool = True
    end_timeout_s: Seconds = 10.0

    @property
    def used_sinks(self) -> tuple[SinkConfig, ...]:
        """The sinks that are used."""
        return tuple(s for s in self.sinks if self.tensorboard or s.name != "tensorboard")


class DashboardConfig(Section, frozen=True):
    """The page that shows a run while it trains (`--dashboard`).

    Attributes:
        enabled: Serve the page, and make the environments of its tiles able to draw (render_mode
            rgb_array).
        host: Address to serve at; any but this machine's own needs a token.
        port: Port to serve at, or the next free one; 0: any.
        hosts: Further names that browsers may ask for it by, those of a proxy say.
        tiles: Environments that can be watched, at most; one of each shard first.
        evaluation: Show an environment of evaluations too.
        fps: Frames a second of each tile that is watched.
        width: Pictures that are wider or higher, in pixels, are made smaller.
        cpu_share: Share of its time that a node spends on drawing, at most, and of a core the page
            where it waits for one; beyond it there are fewer frames a second.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8420
    hosts: tuple[str, ...] = ()
    tiles: Annotated[int, Meta(ge=1, le=32)] = 8
    evaluation: bool = True
    fps: Annotated[float, Meta(ge=0.5, le=30)] = 5.0
    width: Annotated[int, Meta(ge=64, le=1024)] = 320
    cpu_share: Annotated[float, Meta(gt=0, le=1)] = 0.03


class DiagnosticsConfig(Section, frozen=True):
    """Switches for tests and for finding faults; all off by default.

    Attributes:
        digests: Write a SHA-256 of the learner's whole state after every ticket.
        schedule: Record in which order things happened, so that `fastloop rerun` can run it again,
            bit for bit, in one process.
        delay_ms: Every node sleeps a random time up to this before each task.
    """

    digests: bool = False
    schedule: bool = False
    delay_ms: Annotated[float, Meta(ge=0)] = 0.0
