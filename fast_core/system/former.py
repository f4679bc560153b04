"""Modules that have moved, found under their former names.

Scripts import them by name, configurations and old runs name environments in them, and pickles
hold their classes: each gets the module that stands at the new place, never a second copy of it.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

MOVED = {
    "fast_core.algos.registry": "fast_core.config.algorithms",
    "fast_core.cli": "fast_core.tools.cli",
    "fast_core.spec": "fast_core.algorithm.spec",
    "fast_core.metrics": "fast_core.messages.metrics",
    "fast_core.events": "fast_core.messages",
    "fast_core.distributed": "fast_core.messages",
    "fast_core.export": "fast_core.policy.export",
    "fast_core.screens": "fast_core.monitor.screens",
    "fast_core.monitor.screens.frame": "fast_core.run.frame",
    "fast_core.monitor.screens.tiles": "fast_core.run.tiles",
    "fast_core.monitor.screens.watching": "fast_core.run.watching",
    "fast_core.seeding": "fast_core.system.seeding",
    "fast_core.envs.drawing.text_picture": "fast_core.system.text_picture",
    "fast_core.integrations.gops": "fast_core.clients.gops",
    "fast_core.integrations.lightzero": "fast_core.clients.lightzero",
    "fast_core.envs.batch": "fast_core.envs.stepping.batch",
    "fast_core.envs.evaluation": "fast_core.envs.playing.evaluation",
    "fast_core.envs.probe": "fast_core.envs.trying.probe",
    **{
        f"fast_core.envs.{game}": f"fast_core.clients.games.{game}"
        for game in (
            "color_lines",
            "drift_task",
            "memory_task",
            "retro",
            "text_game",
            "textworld_story",
        )
    },
}


def present_name(name: str) -> str | None:
    """The name a module has now; None if it never had another."""
    if not name.startswith("fast_core."):  # asked of each module that is imported, torch's too
        return None
    for former, now in MOVED.items():
        if name == former or name.startswith(f"{former}."):
            return now + name.removeprefix(former)
    return None


def _present_spec(name: str) -> ModuleSpec | None:
    if (now := present_name(name)) is None:
        return None
    from importlib.util import find_spec  # here: each process imports this module, and few need it

    return find_spec(now)


class FormerNames:
    """A finder for `sys.meta_path`, before the one of files: a moved package's parts move too."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Claim former names; whoever comes after us finds the others."""
        spec = _present_spec(name)
        return spec and ModuleSpec(name, self, origin=spec.origin)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make a module, which `exec_module` replaces."""

    def get_code(self, name: str) -> CodeType | None:
        """What ``python -m`` runs."""
        spec = _present_spec(name)
        assert spec is not None and isinstance(spec.loader, SourceFileLoader)
        return spec.loader.get_code(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the present name in the place of ``module``."""
        now = present_name(module.__name__)
        assert now is not None
        sys.modules[module.__name__] = importlib.import_module(now)


def find_by_former_names() -> None:
    """Let every import that follows find moved modules; once in a process."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNames())
