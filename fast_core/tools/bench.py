"""Where the benchmarks are: in a checkout, not in the installed package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from fast_core.errors import ConfigError
from fast_core.system import installed

_MARK = Path("benchmarks") / "suite.py"


def find_checkout(package: Path, here: Path) -> Path:
    """The checkout that holds the benchmarks: that of ``package``, or the one ``here``.

    Raises:
        ConfigError: There is none.
    """
    for folder in (package.parent, here, *here.parents):
        if (folder / _MARK).is_file() and (folder / "fast_core").is_dir():
            return folder
    raise ConfigError(
        f"the benchmarks are not part of the installed package ({package}): clone FastLoop's "
        "repository and run `fastloop bench` in it, there with `pip install -e '.[bench]'` for "
        "what it is compared with"
    )


def run(names: Sequence[str], *, quick: bool, only_list: bool, as_json: bool) -> int:
    """Run benchmarks of the checkout; see `benchmarks.suite.run`.

    Raises:
        ConfigError: There is no checkout.
    """
    checkout = find_checkout(Path(installed.FOLDER), Path.cwd())
    # As the package itself: on sys.path the checkout would put its folders before those of a user.
    spec = spec_from_file_location("benchmarks", (checkout / _MARK).with_name("__init__.py"))
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(sys.modules.setdefault(spec.name, module_from_spec(spec)))
    suite = import_module("benchmarks.suite")
    status: int = suite.run(names, quick=quick, only_list=only_list, as_json=as_json)
    return status
