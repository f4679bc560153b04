"""A policy's parameters as one flat vector, the form in which they are published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.spec import FieldSpec
from fast_core.errors import ConfigError


class ParameterPack:
    """Lays parameters one after the other into one flat float32 vector: mostly the policy's."""

    def __init__(
        self, fields: Sequence[FieldSpec], of: Literal["policy", "insight"] = "policy"
    ) -> None:
        """``fields`` come from the blueprint's ``policy_fields`` or ``insight_fields``.

        Raises:
            ConfigError: One of them is not float32.
        """
        self.fields, self._of = tuple(fields), of
        for field in self.fields:
            if field.dtype != "float32":
                raise ConfigError(
                    f"{of}_fields of the algorithm must be float32; {field.name!r} is "
                    f"{field.dtype}. Whoever loads them may convert them."
                )
        sizes = [field.row_nbytes // 4 for field in self.fields]
        self._ends = np.cumsum([0, *sizes]).tolist()
        self.nbytes: int = 4 * self._ends[-1]

    def empty(self) -> Array:
        """A new flat vector."""
        return np.zeros(self._ends[-1], np.float32)

    def pack(self, parameters: Sequence[Array], flat: Array) -> None:
        """Copy parameters, shaped as the fields say, into ``flat``.

        Raises:
            ConfigError: They are not what the fields say; NumPy would broadcast some of that.
        """
        who, says = f"{self._of}_parameters of the algorithm", f"as its {self._of}_fields says"
        if len(parameters) != len(self.fields):
            raise ConfigError(
                f"{who} must give {len(self.fields)} arrays, {says} "
                f"({', '.join(field.name for field in self.fields)}); got "
                f"{len(parameters)}."
            )
        for field, parameter, view in zip(self.fields, parameters, self.views(flat), strict=True):
            if parameter.shape != field.shape or parameter.dtype != np.float32:
                raise ConfigError(
                    f"{who} must give {field.name!r} as float32 of shape {field.shape}, {says}; "
                    f"got {parameter.dtype} of shape {tuple(parameter.shape)}."
                )
            view[...] = parameter

    def views(self, flat: Array) -> list[Array]:
        """The parameters as views of ``flat``."""
        spans = zip(self.fields, self._ends[:-1], self._ends[1:], strict=True)
        return [flat[start:end].reshape(field.shape) for field, start, end in spans]
