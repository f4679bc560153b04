"""FastLoop under the name that it is installed by: the same objects as in `fast_core`."""

import fast_core
from fast_core import __version__ as __version__

__all__ = fast_core.__all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(fast_core, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
