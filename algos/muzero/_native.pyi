"""Types of what is compiled. What it does stands in native/trees.hpp and native/heads.hpp."""

from typing import Any

from numpy.typing import NDArray

Values = NDArray[Any]

def decode(said: Values, outputs: int, rows: int, found: Values, /) -> None: ...
def centre(
    latent: Values, before: Values | None, features: int, rows: int, epsilon: float, /
) -> None: ...

class Trees:
    def __new__(
        cls,
        capacity: int,
        sizes: tuple[int, int, int],
        constants: tuple[float, float, float, float, float, float, float, float],
        schedule: Values,
        /,
    ) -> Trees: ...
    def begin(
        self,
        roots: int,
        logits: Values,
        value: Values,
        mask: Values | None,
        noise: Values | None,
        /,
    ) -> tuple[str, int] | None: ...
    def select(self, place: Values, action: Values, /) -> None: ...
    def expand(
        self, reward: Values, value: Values, logits: Values, /
    ) -> tuple[str, int] | None: ...
    def backup(self) -> None: ...
    def result(self, action: Values, policy: Values, value: Values, visits: Values, /) -> None: ...
