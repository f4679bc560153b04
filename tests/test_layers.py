"""The layer rule of the architecture, read from the imports of every module."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where each package's sources are; `algos/` is imported as fast_core.algos (a link leads there).
SOURCES = {"fast_core": "fast_core", "fast_core.algos": "algos", "fast_core.clients": "clients"}

# Where each module or package stands. A module imports lower numbers, or its own package.
LEVELS = {
    "fast_core": 2,  # the version, and what is imported when it is asked for
    "fast_core.errors": 0,
    "fast_core.system": 1,
    "fast_core.algorithm": 2,
    "fast_core.messages": 2,
    "fast_core.config": 3,
    "fast_core.callbacks": 4,
    "fast_core.memory": 4,
    "fast_core.scheduler": 4,
    "fast_core.envs": 4,
    "fast_core.monitor": 4,
    "fast_core.run": 5,
    "fast_core.policy": 6,
    "fast_core.nodes": 7,
    "fast_core.node": 8,  # the name under which users import `nodes.node`
    "fast_core.launcher": 8,
    "fast_core.dashboard": 9,
    "fast_core.integrations": 9,
    "fast_core.testing": 10,  # tests import it, and nothing else
    "fast_core.tools": 11,
    "fast_core.clients": 12,  # likewise: a command, or an environment's id, says which
    "fast_core.algos": 12,  # `algorithm.name` says which, as a user's: nothing imports it
    "fast_core.api": 12,  # what `fast_core` offers, which imports it when it is asked for
}

ALGOS_MAY_SEE = {
    "fast_core.algorithm",
    "fast_core.config",
    "fast_core.errors",
    "fast_core.system.importing",
}

# Library -> the only modules that may import it.
OWNERS = {
    "zmq": {"fast_core.messages.zmq_channel"},
    "posix_ipc": {"fast_core.memory.segment"},
    "cloudpickle": {
        "fast_core.api.sending",
        "fast_core.envs.pickled",
        "fast_core.integrations.remote",  # weights and data of a host are objects of its own
        "fast_core.integrations.parcels",
    },
    "pandas": {"fast_core.api.columns"},
    "subprocess": {
        "fast_core.envs.drawing.envpool_drawing",  # what draws there may end its process
        "fast_core.clients.games.stored_stories",  # what makes one leaves files where it is killed
        "fast_core.system.beside",
        "fast_core.launcher.processes.tree",
        "fast_core.system.watched",
        "fast_core.integrations.remote",  # what `beside` gives it
        "fast_core.tools.doctor",
        "fast_core.policy.export.header",  # the C compiler
    },
    # The launcher forks from a server of its own; GOPS's scripts ask it for cores.
    "multiprocessing": {"fast_core.clients.gops.script"},
}

# Modules that compute tensors; everything else starts fast because it doesn't import torch.
TENSORS = (
    "fast_core.algos",
    "fast_core.nodes",
    "fast_core.policy.export",
    "fast_core.clients.gops",  # GOPS's own
    "fast_core.integrations.tensors",  # a host's own, imported where it has imported torch
    "fast_core.clients.lightzero",  # LightZero's own
)

MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 600

# The whole house: what a reader must know to know where anything is.
MOST_ROOMS = 26
MOST_FLOORS = 10
MOST_ARROWS = 130

IMPURE = ("time", "random", "threading", "socket", "select", "asyncio", "zmq", "os", "torch")

# Who may ask a plan, or a configuration, what kind of run it is: the parts that follow from it.
# All others read roles and structures, which the parts bring (`fast_core.run.parts`).
PARTS = (
    "fast_core.config",
    "fast_core.run",
    "fast_core.nodes.collect",
    "fast_core.nodes.act",
    "fast_core.nodes.learn",
    "fast_core.nodes.replay",
    "fast_core.run.tiles",
)
KINDS = {"replays", "evaluates", "averages", "keeps_replay", "policy_nodes"}
COUNTS = {"optimizers", "count", "every_env_steps"}  # compared with one, or with None

Imports = Mapping[str, set[str]]


def read(root: Path) -> dict[str, str]:
    """Source of every module by its dotted name; of the native one, its stub.

    Not the stub of `fast_core` itself, which types what it imports when it is asked for.
    """
    found = {}
    for package, folder in SOURCES.items():
        for path in sorted((root / folder).rglob("*.py*")):
            if path.suffix in (".py", ".pyi") and path.name != "__init__.pyi":
                below = path.relative_to(root / folder).with_suffix("").parts
                name = ".".join((package, *below))
                found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """What each module imports, at any depth: in functions and under TYPE_CHECKING too."""
    return {name: set(_imported(name, text, sources)) for name, text in sources.items()}


def _imported(name: str, text: str, sources: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively; write the whole path"
            module = node.module or ""
            for alias in node.names:
                below = f"{module}.{alias.name}"
                yield below if below in sources else module


def unit(name: str) -> str:
    """The entry of `LEVELS` that a module belongs to."""
    parts = name.split(".")
    return ".".join(parts[:2])


def ours(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.split(".")[0] == "fast_core"]


def misplaced(graph: Imports) -> list[str]:
    """Imports that go upwards or sideways."""
    found = []
    for name, targets in graph.items():
        for target in sorted(ours(targets)):
            source_unit, target_unit = unit(name), unit(target)
            if source_unit == target_unit:
                continue
            source, below = LEVELS.get(source_unit), LEVELS.get(target_unit)
            if source is None or below is None:
                found.append(f"{name} -> {target}: no level in tests/test_layers.py")
            # Single modules of one level all belong to the package fast_core.
            elif below > source or (below == source and not _siblings(source_unit, target_unit)):
                found.append(f"{name} (level {source}) -> {target} (level {below})")
            elif source_unit == "fast_core.algos" and not _within(target, ALGOS_MAY_SEE):
                found.append(f"{name} -> {target}: algorithms know only {sorted(ALGOS_MAY_SEE)}")
    return found


def _within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _siblings(first: str, second: str) -> bool:
    folders = {f"fast_core.{path.name}" for path in (ROOT / "fast_core").iterdir() if path.is_dir()}
    return first not in folders and second not in folders


def cycle(graph: Imports) -> list[str]:
    """Some chain of imports that leads back to its beginning; empty if there is none."""
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> list[str]:
        if name in chain:
            return [*chain[chain.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph.get(name, set()) & graph.keys()):
            if found := visit(target, [*chain, name]):
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name, []):
            return found
    return []


def rooms(graph: Imports, house: str) -> dict[str, set[str]]:
    """What each module or folder right below a package imports of its neighbours."""
    depth = house.count(".") + 2
    found: dict[str, set[str]] = {}
    for name, targets in graph.items():
        room = ".".join(name.split(".")[:depth])
        if name.startswith(f"{house}."):
            there = {".".join(target.split(".")[:depth]) for target in targets}
            found.setdefault(room, set()).update(
                target for target in there - {room} if target.startswith(f"{house}.")
            )
    return found


def house(root: Path) -> dict[str, set[str]]:
    """Which rooms each room imports: entries of `LEVELS`, and the benchmarks.

    Algorithms and clients lie beside the core, where links lead: that a benchmark measures one of
    them is no arrow of the core's.
    """
    sources = read(root)
    for path in sorted((root / "benchmarks").rglob("*.py")):
        below = path.relative_to(root).with_suffix("").parts
        sources[".".join(below)] = path.read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for name, targets in imports(sources).items():
        found.setdefault(room(name), set()).update(map(room, ours(targets)))
    found["benchmarks"] -= {"fast_core.algos", "fast_core.clients"}
    return {name: targets - {name} for name, targets in found.items()}


def room(name: str) -> str:
    """The room of a module, or of a name that one of them offers."""
    first, _, rest = name.partition(".")
    if first != "fast_core":
        return first
    return unit(name) if rest and unit(name) in LEVELS else first


def floors(rooms_of: Mapping[str, set[str]]) -> int:
    """Rooms on the longest way down."""

    def height(name: str) -> int:
        return 1 + max(map(height, rooms_of.get(name, ())), default=0)

    return max(map(height, rooms_of))


def long_functions(text: str) -> Iterator[tuple[str, int]]:
    """Functions that have more lines than they may, docstrings not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.end_lineno or 0
            written = last - node.lineno + 1
            if ast.get_docstring(node) is not None:
                written -= (first.end_lineno or 0) - first.lineno + 1
            if written > MOST_LINES_OF_A_FUNCTION:
                yield node.name, written


def loaded(graph: Imports, package: str) -> set[str]:
    """Our modules that are there once everything of a package is imported."""
    found: set[str] = set()
    names = [name for name in graph if _within(name, (package,))]
    while names:
        name = names.pop()
        if name in graph and name not in found:
            found.add(name)
            names += [*graph[name], name.rpartition(".")[0]]
    return found


def users(graph: Imports, library: str) -> set[str]:
    return {
        name
        for name, targets in graph.items()
        if any(target == library or target.startswith(f"{library}.") for target in targets)
    }


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return imports(read(ROOT))


def test_imports_go_down_only(graph: Imports) -> None:
    assert misplaced(graph) == []


def test_imports_have_no_cycle(graph: Imports) -> None:
    assert cycle(graph) == []


def test_folders_of_a_package_do_not_import_each_other_in_a_circle(graph: Imports) -> None:
    houses = {name for name in graph if any(other.startswith(f"{name}.") for other in graph)}
    circles = [cycle(rooms(graph, house)) for house in sorted(houses)]
    assert [circle for circle in circles if circle] == []


def test_functions_and_files_stay_short_enough_to_be_read() -> None:
    sources = read(ROOT)
    long = {f"{n}.{f}": k for n, text in sources.items() for f, k in long_functions(text)}
    assert long == {}
    files = {name: len(text.splitlines()) for name, text in sources.items()}
    files = {name: lines for name, lines in files.items() if lines > MOST_LINES_OF_A_FILE}
    assert files == {}


def test_the_house_stays_small_enough_to_be_known() -> None:
    rooms_of = house(ROOT)
    assert len(rooms_of) <= MOST_ROOMS
    assert floors(rooms_of) <= MOST_FLOORS
    assert sum(map(len, rooms_of.values())) <= MOST_ARROWS


@pytest.mark.parametrize("library", OWNERS)
def test_library_is_imported_by_its_owner_only(library: str, graph: Imports) -> None:
    assert users(graph, library) == OWNERS[library]


def test_checks_for_tests_are_imported_by_tests_alone(graph: Imports) -> None:
    kit = "fast_core.testing"
    assert [name for name in users(graph, kit) if not _within(name, (kit,))] == []


def test_processes_are_forked_in_the_launcher_only() -> None:
    forks = {"fork", "forkpty", "posix_spawn", "posix_spawnp", "spawnv", "system", "popen"}
    users = {
        name
        for name, text in read(ROOT).items()
        if any(f"os.{fork}" in text for fork in forks)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr in forks
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }
    assert users <= {"fast_core.launcher.processes.fork_server"}


def test_torch_is_imported_only_where_tensors_are_computed(graph: Imports) -> None:
    strangers = {name for name in users(graph, "torch") if not _within(name, TENSORS)}
    assert strangers == set()


@pytest.mark.parametrize("library", IMPURE)
def test_scheduler_is_pure(library: str, graph: Imports) -> None:
    pure = ("fast_core.scheduler", "fast_core.integrations.coordinator")
    assert [name for name in users(graph, library) if _within(name, pure)] == []


def test_what_decides_loads_nothing_that_carries_messages(graph: Imports) -> None:
    """Messages and how they travel are one package, of which the scheduler loads the messages."""
    assert users(graph, "zmq") & loaded(graph, "fast_core.scheduler") == set()


def test_messages_are_never_pickled(graph: Imports) -> None:
    # The launcher hands its own children their plan pickled; nothing that comes by message is.
    # A host's objects travel between its own processes.
    names = ("remote", "parcels", "transport", "tensors")
    senders = {f"fast_core.integrations.{name}" for name in names}
    senders |= {"fast_core.clients.lightzero.hosts"}
    assert users(graph, "pickle") <= {"fast_core.launcher.processes.tree", *senders}


def test_only_one_module_decodes_what_others_may_have_written() -> None:
    """msgspec raises `RecursionError` at deep nesting, which no reader of damage expects."""
    decodes = re.compile(r"msgspec\.(json|msgpack)\.(decode|Decoder)\b|\bjson\.loads?\(")
    trusted = {  # what a process of FastLoop's own, or the learner itself, wrote a moment ago
        "fast_core.algos.rollouts.learner",
        "fast_core.algos.replay.learner",
        "fast_core.envs.drawing.envpool_drawing",
        "fast_core.launcher.processes.fork_server",
        "fast_core.launcher.processes.tree",
        "fast_core.tools.doctor",
    }
    found = {name for name, text in read(ROOT).items() if decodes.search(text)}
    assert found - trusted == {"fast_core.system.decoding"}


def asked(text: str) -> list[str]:
    """What kind of run it is, asked of a plan or a configuration."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in KINDS:
            found += [node] if _of_a_run(node.value) else []
        elif isinstance(node, ast.Compare) and all(map(_is_few, node.comparators)):
            asks = isinstance(node.left, ast.Attribute) and node.left.attr in COUNTS
            found += [node] if asks and _of_a_run(node.left) else []
    return [ast.unparse(node) for node in found]


def _of_a_run(node: ast.expr) -> bool:
    return re.search(r"\b_?(plan|config|optimizer|evaluation)\b", ast.unparse(node)) is not None


def _is_few(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 1, None)


def test_only_the_parts_of_a_run_ask_what_kind_it_is() -> None:
    found = {name: asked(text) for name, text in read(ROOT).items() if not _within(name, PARTS)}
    assert {name: what for name, what in found.items() if what} == {}


# --- the checks themselves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "bad"),
    [
        ("fast_core.errors", "import fast_core.algorithm.spec", True),
        ("fast_core.algorithm.spec", "from fast_core.errors import ConfigError", False),
        ("fast_core.algorithm.spec", "from fast_core import errors", False),
        ("fast_core.config.file", "from fast_core import config", False),
        ("fast_core.memory.ring", "from fast_core.memory import arena", False),
        ("fast_core.memory.ring", "from fast_core.scheduler import core", True),
        ("fast_core.memory.ring", "def f():\n    import fast_core.nodes.node", True),
        (
            "fast_core.memory.ring",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fast_core.nodes.node",
            True,
        ),
        ("fast_core.run.plan", "import fast_core.algos.ppo.config", True),
        ("fast_core.algos.ppo.learner", "from fast_core.algorithm import Algorithm", False),
        ("fast_core.algos.ppo.learner", "from fast_core.memory.ring import Ring", True),
        ("fast_core.tools.demo", "import fast_core.algos.ppo.config", True),
        ("fast_core.nodes.collect.env", "import fast_core.config.algorithms", False),
        ("fast_core.nowhere", "import fast_core.errors", True),
        ("fast_core.nodes.collect.env", "import numpy.random", False),
    ],
)
def test_layer_check_sees(name: str, text: str, bad: bool) -> None:
    known = {name: text, "fast_core.errors": "", "fast_core.config": "", "fast_core": ""}
    known |= {"fast_core.memory.arena": "", "fast_core.scheduler.core": "", name: text}
    assert bool(misplaced(imports(known))) is bad


def test_cycle_check_sees_cycles_through_type_checking() -> None:
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fast_core.algos.b import B"
    )
    a, b, c = (f"fast_core.algos.{name}" for name in "abc")
    sources = {a: text, b: f"import {c}", c: f"import {a}"}
    assert cycle(imports(sources)) == [a, b, c, a]
    assert cycle(imports({**sources, c: ""})) == []


def test_circle_check_sees_folders_whose_modules_have_none() -> None:
    sources = {
        "fast_core.p.a.one": "import fast_core.p.b.one",
        "fast_core.p.a.two": "",
        "fast_core.p.b.one": "",
        "fast_core.p.b.two": "import fast_core.p.a.two",
    }
    graph = imports(sources)
    assert cycle(graph) == []
    assert len(cycle(rooms(graph, "fast_core.p"))) == 3
    assert cycle(rooms(imports({**sources, "fast_core.p.b.two": ""}), "fast_core.p")) == []


def test_house_is_counted_by_its_rooms(tmp_path: Path) -> None:
    for name, text in {
        "fast_core/errors.py": "",
        "fast_core/memory/ring.py": "import fast_core.errors\nfrom fast_core.memory import arena",
        "fast_core/run/plan.py": "import fast_core.memory.ring\nfrom fast_core import errors",
        "algos/ppo.py": "import numpy",
        "clients/__init__.py": "",
        "benchmarks/one.py": "import fast_core.run.plan, fast_core.algos.ppo, benchmarks.two",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rooms_of = house(tmp_path)
    assert rooms_of == {
        "fast_core.errors": set(),
        "fast_core.memory": {"fast_core.errors"},
        "fast_core.run": {"fast_core.memory", "fast_core.errors"},
        "fast_core.algos": set(),
        "fast_core.clients": set(),
        "benchmarks": {"fast_core.run"},
    }
    assert floors(rooms_of) == 4


def test_length_check_counts_lines_but_not_docstrings() -> None:
    doc = '"""' + "words\n" * 70 + '"""'
    body = "    x = 1\n" * MOST_LINES_OF_A_FUNCTION
    assert list(long_functions(f"def f():\n    {doc}\n    x = 1\n")) == []
    assert list(long_functions(f"def f():\n    {doc}\n{body}")) == [("f", 61)]


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("if self._plan.replays: pass", True),
        ("x = () if context.plan.config.replays else y", True),
        ("if plan.optimizers > 1: pass", True),
        ("many = config.nodes.optimizer.count == 1", True),
        ("plays = evaluation.every_env_steps is not None", True),
        ("if interrupts.count > 1: pass", False),
        ("for name in plan.names.replay: pass", False),
        ("share = rows // config.nodes.optimizer.count", False),
        ("if settings.replays: pass", False),
    ],
)
def test_question_check_sees(text: str, asks: bool) -> None:
    assert bool(asked(text)) is asks


def test_library_check_sees_submodules() -> None:
    sources = {"fast_core.a": "from zmq.utils import x", "fast_core.b": "import zmqish"}
    assert users(imports(sources), "zmq") == {"fast_core.a"}
