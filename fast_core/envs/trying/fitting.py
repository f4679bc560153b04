"""Trying every environment of a run, and whether the evaluated ones fit the one of training."""

from __future__ import annotations

from collections.abc import Mapping

from fast_core.algorithm.spec import EnvironmentSpec, differences
from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.video_file import as_frame, import_encoder
from fast_core.envs.place import Place
from fast_core.envs.playing.evaluation import evaluated
from fast_core.envs.playing.rendering import drawing, explained
from fast_core.envs.trying import Before
from fast_core.envs.trying.probe import probe, probed
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system.seeding import Role, draw_seed


def probe_all(
    config: EnvironmentConfig,
    others: Mapping[str, EnvironmentConfig],
    seed: int,
    *,
    number: int = 0,
    filmed: bool = False,
    before: Before = lambda _: None,
) -> EnvironmentSpec:
    """As `probe`; tries each environment of ``evaluation.environments`` too.

    With ``filmed`` it also draws the first one, as videos of evaluations will.

    Raises:
        ConfigError: As `probe`, what is trained can't act in one of the others, or there is
            nothing to film.
    """
    spec = probe(config, seed, number=number, before=before)
    for name, other in others.items():
        key = f"evaluation.environments.{name}"
        try:
            found = probe(evaluated(other), seed, number=number, before=before)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
        _check_fits(key, found, spec)
    if filmed:
        _check_drawn(config, seed, number, before)
    return spec


def _check_drawn(config: EnvironmentConfig, seed: int, number: int, before: Before) -> None:
    what = "evaluation.video_every"
    import_encoder(what)
    before("make")
    try:
        instance = probed(drawing(config, "rgb_array", Place(number)), seed, number)
        try:
            before("call")
            rows = instance.observations(1).rows
            instance.reset(rows[0], episode=0, seed=draw_seed(seed, Role.PROBE, 1, 0))
            before("make")  # a first drawing may compile shaders, say
            with explained(config, "rgb_array"):
                as_frame(instance.render())
        finally:
            before("call")
            instance.close()
    except (ConfigError, EnvironmentFailed) as error:
        raise ConfigError(
            f"{what} needs pictures: {str(error).rstrip('.')}. Take it out, or choose an "
            "environment that draws."
        ) from error


def _check_fits(key: str, found: EnvironmentSpec, spec: EnvironmentSpec) -> None:
    if differing := differences(found, spec):
        raise ConfigError(
            f"{key} must have the spaces of `environment`, since it is played in with the policy "
            f"that trains there; {found.id!r} has {differing}. Change it or its kwargs and "
            "wrappers, or take it out."
        )
