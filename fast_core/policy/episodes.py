"""What an evaluation comes to: a table with a row for each episode."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import PolicyError

F64 = NDArray[np.float64]


def evaluation_figures(returns: Sequence[float], lengths: Sequence[int]) -> dict[str, float]:
    """What an evaluation comes to, over the episodes whose outcome is known.

    ``quarantined_share`` is the share of the others; without any known one it stands alone.
    """
    known = ~np.isnan(returns)
    figures = {"quarantined_share": float(1 - known.mean())}
    if known.any():
        kept = np.asarray(returns)[known]
        figures |= {
            "return_mean": float(kept.mean()),
            "return_std": float(kept.std()),
            "return_min": float(kept.min()),
            "return_max": float(kept.max()),
            "length_mean": float(np.asarray(lengths)[known].mean()),
        }
    return figures


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of an evaluation, in order.

    Attributes:
        returns: Undiscounted return of each, NaN where it met NaN or infinity: what it would have
            come to is not known.
        lengths: Steps of each.
        endings: ``terminated`` or ``truncated`` by the environment, ``cut`` by the evaluation's own
            limit of steps, ``no_reward`` after ``environment.no_reward_timeout_steps``,
            ``nonfinite`` where it met NaN or infinity.
        seeds: Seed of the reset that began each, None where it had none of its own.
        info: Numbers of the info of each one's last step by name, NaN where it gave none: those of
            ``environment.info``, or every number where that names none.
        environment: Id of the environment.
    """

    returns: F64
    lengths: NDArray[np.int64]
    endings: tuple[str, ...]
    seeds: tuple[int | None, ...]
    info: dict[str, F64]
    environment: str

    @classmethod
    def of(
        cls,
        returns: Sequence[float],
        lengths: Sequence[int],
        endings: Sequence[str | None],
        seeds: Sequence[int | None],
        infos: Sequence[dict[str, float]],
        environment: str,
    ) -> Episodes:
        """The table of what a `fast_core.envs.playing.runner.Runner` has played."""
        names = dict.fromkeys(name for info in infos for name in info)
        return cls(
            returns=np.array(returns, np.float64),
            lengths=np.array(lengths, np.int64),
            endings=tuple(ending or "" for ending in endings),
            seeds=tuple(seeds),
            info={name: np.array([info.get(name, np.nan) for info in infos]) for name in names},
            environment=environment,
        )

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean return over the episodes whose return is known, NaN without any."""
        return self._figures.get("return_mean", np.nan)

    @property
    def std(self) -> float:
        """Standard deviation of the known returns, NaN without any."""
        return self._figures.get("return_std", np.nan)

    @property
    def _figures(self) -> dict[str, float]:
        return evaluation_figures(self.returns.tolist(), self.lengths.tolist())

    def summary(self) -> dict[str, Any]:
        """Means and counts by name, as `fastloop eval` prints them."""
        names = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
        info = {
            name: float(np.nanmean(values))
            for name, values in self.info.items()
            if not np.isnan(values).all()
        }
        return {
            "episodes": len(self),
            **dict.fromkeys(names),
            **self._figures,
            "episodes_cut": self.endings.count("cut"),
            "episodes_no_reward": self.endings.count("no_reward"),
            "info": info,
        }

    def columns(self) -> dict[str, Any]:
        """Everything by name, a value for each episode."""
        return {
            "return": self.returns,
            "length": self.lengths,
            "ended": self.endings,
            "seed": self.seeds,
            **self.info,
        }

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``.

        Raises:
            PolicyError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise PolicyError(
                "to_pandas() needs pandas. Run `pip install pandas`, or use columns()."
            ) from error
        return pandas.DataFrame(self.columns()).rename_axis("episode")

    def __repr__(self) -> str:
        endings = {name: self.endings.count(name) for name in dict.fromkeys(self.endings)}
        ended = ", ".join(f"{count} {name}" for name, count in endings.items())
        return (
            f"<{len(self)} episodes of {self.environment}: return {self.mean:g} ± {self.std:g}, "
            f"{ended}>"
        )
