"""`fastloop rerun`: runs a recorded run again, inline, as it was."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import msgspec

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.outcome import Outcome
from fast_core.launcher.rerunning.conducting import RerunConductor
from fast_core.launcher.rerunning.fingerprint import differences, fingerprint
from fast_core.launcher.rerunning.following import Follower, updates
from fast_core.launcher.rerunning.written import as_far_as_written
from fast_core.launcher.run import carry_through
from fast_core.launcher.session import Continuation, Session
from fast_core.monitor import checkpoint_files
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screen import make_progress
from fast_core.run.parts import names_of
from fast_core.run.schedule import (
    Pass,
    Schedule,
    ScheduleHeader,
    checkpoint_of,
    of_node,
    parts,
    read_schedule,
    read_share,
)
from fast_core.system.interrupts import Interrupts

FOLDER = "rerun"
_UNTIL = re.compile(r"update=([1-9][0-9]*)")


def rerun(path: Path, until: str | None = None) -> Outcome:
    """Do again what was recorded of a run, in this process.

    Of a run that was resumed this is its last part, or that with the update ``until``.

    Args:
        path: The run.
        until: ``update=N``: as far as the ticket with that update; None: to the end.

    Raises:
        FastLoopError: It was not recorded, the machine or its libraries compute otherwise, or
            something came out otherwise than recorded.
    """
    found = RunDirectory.open(path, lambda run: "" if parts(run.path) else "no recorded schedule")
    update = _update(until)
    recorded = parts(found.path)
    if not recorded:
        raise _not_recorded(found)
    part, schedule, continuation = _chosen(recorded, update)
    _check_fingerprint(schedule.header, found)
    config = _config(schedule.header, found)
    schedule = as_far_as_written(schedule, part, config)
    _check_until(schedule, update, found)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress(sys.stdout)
        stack.callback(progress.close)
        run = RunDirectory.create(found.path, FOLDER, datetime.now(), config.seed)
        text = f"running {found.path} again as recorded, in {run.path}"
        progress.say(text, "INFO")
        follower = Follower(schedule, str(part), update, _passes(part, config))
        conductor = RerunConductor(follower)
        session = Session(config, run, continuation, progress, interrupts, conductor=conductor)
        outcome = carry_through(session)
        text = f"the weights came out as recorded after each of {follower.trained} tickets"
        progress.say(text, "INFO")
        return outcome


def _not_recorded(run: RunDirectory) -> ConfigError:
    source = run.path.parent.parent
    if run.path.parent.name == FOLDER and parts(source):
        again = shlex.join(["fastloop", "rerun", str(source)])
        return ConfigError(f"{str(run.path)!r} is a rerun itself. Run the recorded one: `{again}`")
    record = shlex.join(["fastloop", "launch", str(run.config), "diagnostics.schedule=true"])
    return ConfigError(
        f"the run {str(run.path)!r} was not recorded, so nobody knows in which order things "
        f"happened in it. Record one with diagnostics.schedule: `{record}`"
    )


def _chosen(
    recorded: Sequence[Path], until: int | None
) -> tuple[Path, Schedule, Continuation | None]:
    """The newest part in which ``until`` came, and what it went on from.

    Raises:
        CheckpointError: It can't be read.
        ConfigError: All began later.
    """
    for part in reversed(recorded):
        schedule = read_schedule(part)
        continuation = _continuation(schedule.header, part)
        began = 0 if continuation is None else continuation.manifest.version
        if until is None or until > began:
            return part, schedule, continuation
    raise ConfigError(
        f"--until must be above update={began}, with which the record begins; got 'update={until}'"
    )


def _passes(part: Path, config: RunConfig) -> dict[str, list[int]]:
    """By policy node, the versions of its recorded passes."""
    names = names_of(config).policy
    return {name: [one.version for one in read_share(of_node(part, name), Pass)] for name in names}


def _update(until: str | None) -> int | None:
    if until is None:
        return None
    match = _UNTIL.fullmatch(until)
    if match is None:
        raise ConfigError(f"--until must be update=N with a number from 1 on; got {until!r}")
    return int(match[1])


def _check_fingerprint(header: ScheduleHeader, run: RunDirectory) -> None:
    """Refuse what can't give the same bits.

    Raises:
        ConfigError: Says what differs.
    """
    other = differences(header.fingerprint, fingerprint())
    if other:
        raise ConfigError(
            f"the run {str(run.path)!r} can't be run again bit for bit here, because what its "
            f"numbers depend on differs: {'; '.join(other)}. Run it again where, and with what, "
            "it was recorded"
        )


def _check_until(schedule: Schedule, until: int | None, run: RunDirectory) -> None:
    last = updates(schedule.entries)
    if until is not None and until > last:
        raise ConfigError(
            f"--until must be at most update={last}, with which the record of {str(run.path)!r} "
            f"ends; got 'update={until}'"
        )


def _continuation(header: ScheduleHeader, part: Path) -> Continuation | None:
    if not header.checkpoint:
        return None
    checkpoint = checkpoint_of(part)
    try:
        manifest = checkpoint_files.check(checkpoint)
    except CheckpointError as error:
        raise CheckpointError(
            f"the recorded part {part} went on from checkpoint {header.checkpoint}, which was "
            f"kept in {checkpoint} and can't be read: {error}"
        ) from error
    return Continuation(checkpoint, manifest, same_directory=False)


def _config(header: ScheduleHeader, run: RunDirectory) -> RunConfig:
    """That of the run, but in one process, at leisure, and telling nobody."""
    from fast_core.config.algorithms import algorithm_config_type

    run.look_where_it_began()
    source = f"the recorded configuration of {str(run.path)!r}"
    config = config_file.loads(
        header.config, [], algorithm_config_type, source=source, resolved=True
    )
    config, replace = config_file.beside(run.path, config), msgspec.structs.replace
    patient = replace(config.supervision, work_timeout_s=None)
    # A run in one process never chooses a degree; the shell says that this one did.
    scheduler = replace(config.scheduler, off_policy_degree=config.degree)
    return replace(
        config,
        scheduler=scheduler,
        mode="inline",
        environment=replace(config.environment, step_timeout_s=None),
        metrics=replace(config.metrics, sinks=()),
        callbacks=(),
        supervision=patient,
        diagnostics=replace(config.diagnostics, delay_ms=0.0),
    )
