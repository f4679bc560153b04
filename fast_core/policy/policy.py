"""A trained policy as a function: observations in, actions as the environment takes them out."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import CheckpointError, ConfigError, PolicyError
from fast_core.policy.checked import CheckedPolicy, make_policy
from fast_core.policy.file import Origin, PolicyFile, write_policy
from fast_core.policy.observations import ObservationReader, usable
from fast_core.system.importing import own
from fast_core.system.seeding import Role, stream
from fast_core.system.surroundings import expanded

if TYPE_CHECKING:
    import gymnasium

Nonfinite = Literal["fail", "act"]
MOST_IDLE = 32  # networks that are kept ready: one for each call at a time
_AS_EVER = nullcontext()
_BUILDING = RLock()  # modules of a user's draw from torch's only random stream when they are made
# A fork has no thread that would finish what another one builds just then.
os.register_at_fork(
    before=_BUILDING.acquire, after_in_parent=_BUILDING.release, after_in_child=_BUILDING.release
)


@dataclass(frozen=True, eq=False)
class PolicyState:
    """What a policy with memory or stacked frames knows of the episodes that it is in.

    It is never changed: to go on from an earlier moment, give the state of that moment again.

    Attributes:
        memory: ``[B, S]`` float32, what a recurrent policy remembers; None without memory.
        frames: ``[B, frames, ...]``, what it sees at once, the newest last; None where frames are
            not stacked. ``B`` is 1 for a single observation.
        fresh: ``[B]``, which rows begin an episode with the next observation; None: no row.
    """

    memory: Array | None = None
    frames: Array | None = None
    fresh: NDArray[np.bool_] | None = None

    def restart(self, rows: object) -> PolicyState:
        """The state in which the episodes of ``rows``, a mask ``[B]`` or indices, begin anew."""
        known = self.frames if self.memory is None else self.memory
        count = 0 if known is None else len(known)
        fresh = np.zeros(count, np.bool_) if self.fresh is None else self.fresh.copy()
        fresh[np.asarray(rows)] = True
        return replace(self, fresh=fresh)


class _Acting(NamedTuple):
    """What computes one call at a time, with the arrays that it writes.

    Attributes:
        policy: The networks.
        row: ``[1, ...]``, a single plain observation.
    """

    policy: CheckedPolicy
    row: Array


class Policy:
    """Acts as in evaluations of its run; has no process and no simulator.

    ``action, state = policy(obs, state)``.

    Concurrency: any number of threads may call it at once. What acts overwrites its own arrays, so
    each call takes one that is idle, or builds another, and puts it back; popping and appending are
    atomic. So there are as many as calls were ever under way at once, whichever threads made them,
    and nobody waits.
    """

    def __init__(
        self,
        file: PolicyFile,
        *,
        where: str = "",
        device: str = "cpu",
        seed: int = 0,
        nonfinite: Nonfinite = "fail",
        run: Path | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        """Build what ``file`` describes.

        Args:
            file: The policy.
            where: What to call it in errors.
            device: Torch device; anything but ``cpu`` needs torch.
            seed: Of actions with ``deterministic=False``.
            nonfinite: What becomes of NaN and infinity in observations, see `__call__`.
            run: Directory of the run that it was loaded from, if any.
            modules: What may be imported to play in the environment that the file names.

        Raises:
            CheckpointError: Its algorithm can't be had, or is another one by now.
            PolicyError: It can't compute on this device, or ``nonfinite`` is something else.
        """
        if nonfinite not in get_args(Nonfinite):
            raise PolicyError(f"nonfinite must be 'fail' or 'act'; got {nonfinite!r}.")
        self.file, self.run, self._where = file, run, where or f"of {file.origin.run}"
        self.modules = tuple(modules)
        self.config = _algorithm(file, self._where)
        environment = file.environment
        self._check_fields()
        backend = file.backend if device == "cpu" else "torch"
        self._setup = PolicySetup(backend, device, file.precision)
        self._noise = self.config.noise(environment)
        self._state_size = self.config.state_size(environment)
        self._frames = environment.frames
        self._kept = {
            "memory": (self._state_size,) if self._state_size else None,
            "frames": environment.observation.shape if self._frames > 1 else None,
        }
        self._reader = ObservationReader(environment)
        self._quiet = np.zeros((1, *self._noise.shape), np.float32)
        self._stream: np.random.Generator | None = None
        self.seed(seed)
        # A single plain observation, the usual case of who deploys a policy, takes a short way.
        space = environment.observation
        plain = space.kind == "box" and not self._state_size and self._frames == 1
        plain = plain and nonfinite == "fail"
        self._plain_shape = space.shape if plain else None
        self._plain_dtype = space.row_dtype
        self._nonfinite: Nonfinite = nonfinite
        self._plain_floats = space.row_dtype.kind == "f"
        self._idle = [self._built()]

    def make_acting(self) -> CheckedPolicy:
        """What acts, for a caller alone: answers are overwritten by its next call."""
        setup = self._setup
        try:
            with _BUILDING:
                acting = make_policy(self.config, self.environment, setup)
                acting.load(self.file.arrays())
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise PolicyError(
                f"the policy {self._where} computes in torch, which is not installed. Run "
                "`pip install torch`."
            ) from error
        except MemoryError as error:
            raise CheckpointError(
                f"the policy {self._where} says that it has more than there is memory for: {error}."
            ) from error
        except (RuntimeError, AssertionError) as error:  # what torch says of a device
            if setup.device == "cpu":
                raise
            said = str(error).rstrip(".")
            raise PolicyError(
                f"device {setup.device!r} can't be used: {said}. Use device='cpu'."
            ) from error
        return acting

    def _built(self) -> _Acting:
        space = self.environment.observation
        return _Acting(self.make_acting(), np.zeros((1, *space.shape), space.row_dtype))

    def _check_fields(self) -> None:
        wanted = {field.name: field.shape for field in self.config.policy_fields(self.environment)}
        found = {each.name: each.shape for each in self.file.parameters}
        if list(wanted.items()) == list(found.items()):
            return
        names = [name for name in (*wanted, *found) if wanted.get(name) != found.get(name)]
        what = "; ".join(
            f"{name!r} of shape {found.get(name, 'none')}, wanted {wanted.get(name, 'none')}"
            for name in dict.fromkeys(names)
        )
        raise CheckpointError(
            f"the policy {self._where} has other parameters than its algorithm "
            f"{self.algorithm!r} takes: {what or 'in another order'}. Load it with the code that "
            "trained it."
        )

    # --- acting ----------------------------------------------------------------------------------

    def __call__(
        self, obs: object, state: PolicyState | None = None, deterministic: bool = True
    ) -> tuple[Any, PolicyState | None]:
        """Choose an action for one observation, or for a batch of them.

        Args:
            obs: As the environment gives it; the shape tells a batch ``[B, ...]`` from a single
                one. Where frames are stacked it is the newest frame alone.
            state: What the last call returned in this episode, None where one begins.
            deterministic: The most likely action; False acts as in training, with noise of this
                object's own stream (`seed`).

        Returns:
            The action as the environment takes it (scaled, clipped, counted from its first choice,
            in its dtype), ``[B, ...]`` for a batch; and the state for the next call, None for a
            policy that has neither memory nor stacked frames.

        Raises:
            PolicyError: The observation or the state is not what the policy takes. NaN, infinity
                and numbers beyond 1e30 are not, unless it was loaded with ``nonfinite="act"``:
                then the action is what the network makes of them, and the state of such rows
                stays what it was.
        """
        if (
            deterministic
            and type(obs) is np.ndarray
            and obs.shape == self._plain_shape
            and obs.dtype == self._plain_dtype
            and state is None
        ):
            idle = self._idle
            try:
                acting = idle.pop()
            except IndexError:
                acting = self._built()
            policy, row = acting
            try:
                row[0] = obs
                if self._plain_floats and not usable(row):
                    self._reader.refuse(row)
                output = policy.act(row, noise=self._quiet, explore=False)
                return _copied(policy.environment_action(output.action)[0]), None
            finally:
                if len(idle) < MOST_IDLE:
                    idle.append(acting)
        rows, single = self._reader.read(obs)
        action, after = self._act(rows, self._checked(state, len(rows)), deterministic)
        return (action[0] if single else action), after

    def _act(
        self, rows: Array, state: PolicyState | None, deterministic: bool
    ) -> tuple[Array, PolicyState | None]:
        stack = self._stacked(rows, state) if self._frames > 1 else None
        memory = self._remembered(len(rows), state) if self._state_size else None
        unusable = self._reader.unusable(rows)
        if unusable is not None and self._nonfinite == "fail":
            self._reader.refuse(rows)
        noise = self._draw(len(rows), deterministic)
        try:
            acting = self._idle.pop()
        except IndexError:
            acting = self._built()
        try:
            with _AS_EVER if unusable is None else np.errstate(all="ignore"):
                output = acting.policy.act(
                    rows if stack is None else stack,
                    noise=noise,
                    explore=not deterministic,
                    state=memory,
                )
                action = acting.policy.environment_action(output.action).copy()
            after = None if output.state is None else output.state.copy()
        finally:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(acting)
        if stack is None and memory is None:
            return action, None
        if unusable is None:
            return action, PolicyState(after, stack)
        return action, _unless(unusable, PolicyState(after, stack), state, memory)

    def _stacked(self, rows: Array, state: PolicyState | None) -> Array:
        if state is None or state.frames is None:
            return np.repeat(rows[:, None], self._frames, axis=1)
        stack: Array = np.concatenate([state.frames[:, 1:], rows[:, None]], axis=1)
        if state.fresh is not None:
            stack[state.fresh] = rows[state.fresh, None]
        return stack

    def _remembered(self, count: int, state: PolicyState | None) -> Array:
        if state is None or state.memory is None:
            return np.zeros((count, self._state_size), np.float32)
        if state.fresh is None:
            return state.memory
        return np.where(state.fresh[:, None], np.float32(0), state.memory)

    def _checked(self, state: PolicyState | None, count: int) -> PolicyState | None:
        if state is None:
            return None
        wanted = {name: shape and (count, *shape) for name, shape in self._kept.items()}
        has = isinstance(state, PolicyState)
        found = {name: getattr(getattr(state, name, None), "shape", None) for name in wanted}
        if has and found == wanted and any(wanted.values()):
            if state.memory is None or usable(state.memory):
                return state
            raise PolicyError(
                "the state has NaN or infinity in its memory, and so would every later one. Give "
                "the state of an earlier call, or None where an episode begins."
            )
        if not any(wanted.values()):
            raise PolicyError(
                f"the policy {self._where} has neither memory nor stacked frames, so its state is "
                f"None; got a {type(state).__name__}."
            )
        needs = ", ".join(f"{name} of shape {shape}" for name, shape in wanted.items() if shape)
        got = ", ".join(f"{name} of shape {shape}" for name, shape in found.items() if shape)
        raise PolicyError(
            f"the state must be what the last call returned for as many observations ({needs}), or "
            f"None where episodes begin; got a {type(state).__name__}"
            f"{f' with {got}' if got else ''}."
        )

    def _draw(self, count: int, deterministic: bool) -> Array:
        shape = (count, *self._noise.shape)
        if deterministic:
            return self._quiet if count == 1 else np.zeros(shape, np.float32)
        drawn = self._stream
        if drawn is None:  # when it is needed, since importing NumPy's takes a while
            with _BUILDING:
                drawn = self._stream = self._stream or stream(self._seed, Role.ACTION_NOISE)
        if self._noise.kind == "uniform":
            return drawn.random(shape, dtype=np.float32)
        return drawn.standard_normal(shape, dtype=np.float32)

    def seed(self, seed: int) -> None:
        """Begin the random stream of ``deterministic=False`` anew.

        Raises:
            PolicyError: It is below 0.
        """
        if seed < 0:
            raise PolicyError(f"seed must be at least 0; got {seed!r}.")
        with _BUILDING:
            self._seed, self._stream = seed, None

    # --- what it is ------------------------------------------------------------------------------

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """What `__call__` takes, as Gymnasium's space."""
        made = own("fast_core.policy.spaces:as_space")
        space: gymnasium.Space[Any] = made(self.environment.row, self.environment.tree)
        return space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """What `__call__` returns, as Gymnasium's space."""
        space: gymnasium.Space[Any] = own("fast_core.policy.spaces:as_space")(
            self.environment.action
        )
        return space

    @property
    def environment(self) -> EnvironmentSpec:
        """What it acts in: spaces, stacked frames, the action mask."""
        return self.file.environment

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that trained it."""
        return self.config.name

    @property
    def origin(self) -> Origin:
        """Run, version, environment steps, return of the evaluation."""
        return self.file.origin

    @property
    def version(self) -> int:
        """Optimizer steps behind its parameters."""
        return self.file.origin.version

    @property
    def env_steps(self) -> int:
        """Environment steps it was trained on."""
        return self.file.origin.env_steps

    def __repr__(self) -> str:
        return (
            f"<Policy {self.algorithm} for {self.environment.id}, version {self.version} after "
            f"{self.env_steps:,} env steps>"
        )

    # --- what becomes of it ----------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write it to one file that `load_policy` reads anywhere.

        Raises:
            PolicyError: It can't be written there; what was there is still there.
        """
        given = expanded(path, "the policy's file")
        try:
            if given.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            write_policy(given, self.file)
        except OSError as error:
            raise PolicyError(
                f"can't write the policy to {str(path)!r}: {error.strerror}. Name a file in a "
                "folder that can be written."
            ) from error

    def export(self, path: str | Path) -> Path:
        """Write it in another format, which the suffix of ``path`` says; see docs/deploying.md.

        Returns:
            The file.

        Raises:
            FastLoopError: There is no such format, or this policy can't be written in it.
        """
        from fast_core.policy.export import export  # when it is needed, for it takes a while

        return export(self.config, self.environment, self.file.arrays(), path)


def _unless(
    unusable: NDArray[np.bool_], after: PolicyState, state: PolicyState | None, memory: Array | None
) -> PolicyState:
    """The state ``after`` a call, but in some rows what it was before.

    Where an episode began with such a row, it still begins with the next one.
    """
    fresh: NDArray[np.bool_] | None = unusable
    if state is not None:
        fresh = None if state.fresh is None else state.fresh & unusable
    if after.memory is not None and memory is not None:
        after.memory[unusable] = memory[unusable]
    if after.frames is not None:
        known = None if state is None else state.frames
        after.frames[unusable] = 0 if known is None else known[unusable]
    return replace(after, fresh=fresh)


def _copied(action: Any) -> Any:
    return action.copy() if type(action) is np.ndarray else action


def _algorithm(file: PolicyFile, where: str) -> AlgorithmConfig:
    """The configuration of its algorithm.

    Raises:
        CheckpointError: There is no such algorithm here, or its keys are others.
    """
    name = file.algorithm.get("name")
    try:
        kind = algorithm_config_type(str(name))
    except ConfigError as error:
        raise CheckpointError(f"the policy {where} can't be loaded: {error}") from error
    try:
        return msgspec.convert({**kind.came_later, **file.algorithm}, kind)
    except msgspec.ValidationError as error:
        raise CheckpointError(
            f"the policy {where} has a configuration that the algorithm {name!r} does not take: "
            f"{error}. FastLoop {file.origin.fastloop} wrote it; load it with that one, or with "
            "the code of the algorithm that trained it."
        ) from error
