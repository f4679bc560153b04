"""Trajectories of an evaluation, written to one file."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.envs.playing.runner import Step
from fast_core.envs.records import leaf_of
from fast_core.errors import PolicyError
from fast_core.policy.episodes import Episodes
from fast_core.system.durable import written_durably

SUFFIXES = (".npz", ".csv")
MOST_COLUMNS = 1024  # of a CSV file; images belong into an npz file
FIXED_COLUMNS = 5  # episode, step, reward, terminated, truncated


class Trajectories:
    """Keeps every step of an evaluation and writes them, in order of episodes.

    An ``.npz`` file holds, for ``N`` steps of ``E`` episodes:

    * ``observation`` ``[N, ...]``, what was observed before each step; parts of a composite one as
      ``observation/PART``; one frame where frames are stacked;
    * ``action`` ``[N, ...]``, as the environment took it; ``reward`` ``[N]``;
    * ``terminated``, ``truncated`` ``[N]``;
    * ``info/NAME`` ``[N]``, every number of the info, NaN where a step gave none;
    * ``episode`` ``[N]``, which one a step belongs to; steps of episode ``e`` are the rows from
      ``episode_start[e]`` up to ``episode_start[e + 1]``;
    * ``final_observation`` ``[E, ...]``, the observation after the last step of each;
    * ``ended`` and ``seed`` ``[E]`` (-1 without a seed of its own), ``about``: the policy, as JSON.

    A ``.csv`` file has a line for each step: ``episode``, ``step``, ``observation[i]`` and
    ``action[i]`` for each element, ``reward``, ``terminated``, ``truncated``, ``info/NAME``.
    """

    def __init__(self, path: Path) -> None:
        """Check what can be checked before anything is played.

        Raises:
            PolicyError: Another suffix, or a place that can't be written to.
        """
        self.path = Path(os.path.abspath(path))  # user code may change the current folder
        if path.suffix.lower() not in SUFFIXES:
            raise PolicyError(
                f"a record must be a file that ends in {' or '.join(SUFFIXES)}; got {str(path)!r}."
            )
        folder = self.path.parent
        if not os.access(folder, os.W_OK | os.X_OK) or self.path.is_dir():
            raise PolicyError(
                f"the record {str(path)!r} can't be written: {str(folder)!r} must be a folder that "
                "exists and that you may write to, and the name must not be a folder's."
            )
        self._steps: dict[int, list[Step]] = {}
        self._final: dict[int, Array] = {}

    def check(self, spec: EnvironmentSpec) -> None:
        """Check that what is observed and done there fits into the file.

        Raises:
            PolicyError: It has too many columns for CSV.
        """
        count = spec.row.size + spec.action.size + FIXED_COLUMNS
        if self.path.suffix.lower() == ".csv" and count > MOST_COLUMNS:
            raise PolicyError(
                f"a CSV record of {spec.id!r} would have {count} columns; at most {MOST_COLUMNS} "
                "make sense. Record to a file that ends in .npz."
            )

    def keep(self, step: Step, next_obs: Array) -> None:
        """Keep a step, and what was observed after the last one."""
        self._steps.setdefault(step.episode, []).append(step)
        self._final[step.episode] = next_obs

    def write(self, episodes: Episodes, spec: EnvironmentSpec, about: dict[str, object]) -> None:
        """Write the file whole, or leave what was there.

        Raises:
            PolicyError: It can't be written.
        """
        columns = self._columns(spec)
        try:
            with written_durably(self.path) as file:
                if self.path.suffix.lower() == ".csv":
                    _write_csv(file, columns)
                else:
                    columns |= self._by_episode(episodes, spec)
                    columns["about"] = np.array(json.dumps(about))
                    save: Any = np.savez_compressed  # its stub knows no arrays by name
                    save(file, **columns)
        except OSError as error:
            raise PolicyError(f"can't write the record {self.path}: {error.strerror}.") from error

    def _columns(self, spec: EnvironmentSpec) -> dict[str, Array]:
        """What there is of each step, ``[N, ...]`` each."""
        steps = [step for episode in sorted(self._steps) for step in self._steps[episode]]
        names = dict.fromkeys(name for step in steps for name in step.info)
        return {
            "episode": np.array([step.episode for step in steps], np.int64),
            **_leaves("observation", np.array([step.obs for step in steps]), spec.row),
            "action": np.array([step.action for step in steps]),
            "reward": np.array([step.reward for step in steps]),
            "terminated": np.array([step.terminated for step in steps]),
            "truncated": np.array([step.truncated for step in steps]),
            **{
                f"info/{name}": np.array([step.info.get(name, np.nan) for step in steps])
                for name in names
            },
        }

    def _by_episode(self, episodes: Episodes, spec: EnvironmentSpec) -> dict[str, Array]:
        """What there is of each episode, ``[E, ...]`` each."""
        final = np.array([self._final[each] for each in range(len(episodes))])
        seeds = [-1 if seed is None else seed for seed in episodes.seeds]
        return {
            "episode_start": np.concatenate(([0], np.cumsum(episodes.lengths))),
            **_leaves("final_observation", final, spec.row),
            "ended": np.array(episodes.endings),
            "seed": np.array(seeds, np.int64),
        }


def _leaves(name: str, rows: Array, space: SpaceSpec) -> dict[str, Array]:
    if space.kind != "composite":
        return {name: rows}
    return {f"{name}/{part}": leaf_of(rows, part).copy() for part, _ in space.parts}


def _write_csv(file: IO[bytes], columns: dict[str, Array]) -> None:
    flat: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
            continue
        elements = values.reshape(len(values), -1)
        flat |= {f"{name}[{index}]": elements[:, index] for index in range(elements.shape[1])}
    episode = flat.pop("episode")
    starts = np.flatnonzero(np.diff(episode, prepend=-1))
    step = np.arange(len(episode)) - np.repeat(starts, np.diff(starts, append=len(episode)))
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    rows = csv.writer(text)
    rows.writerow(["episode", "step", *flat])
    lists = [values.tolist() for values in (episode, step, *flat.values())]
    rows.writerows(zip(*lists, strict=True))
    text.detach()
