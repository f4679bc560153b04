"""Starting: whoever is late or dies before it has its plan is named."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.config import EnvironmentConfig, OptimizerNodeConfig, SupervisionConfig
from fast_core.errors import NodeFailed
from fast_core.launcher.processes import beginning as module
from fast_core.launcher.processes.beginning import PROBE, ask_probe, await_answer, await_started
from fast_core.launcher.processes.start import ProbeStart
from fast_core.launcher.processes.tree import Child, frame
from fast_core.launcher.roster import Roster
from fast_core.launcher.supervisor import Supervisor
from fast_core.messages import Failed, Restoring
from fast_core.messages.launching import EndRun, Respawn
from fast_core.system.interrupts import Interrupts
from tests.nodes.stage import CARTPOLE, Stage, make_config

START = ProbeStart(
    EnvironmentConfig(id="CartPole-v1"), 0, 0, OptimizerNodeConfig(), "cpu", PPOConfig()
)


class FakeTree:
    """A process tree without processes: `poll` does what `news` says, one thing a time."""

    def __init__(self, *names: str) -> None:
        self.preload = ("torch", "own")
        self.log = Path(os.devnull)
        self.children: dict[str, Child] = {}
        self.theirs: dict[str, socket.socket] = {}
        self._news: list[Callable[[], None]] = []
        self._news_in, self._news_out = os.pipe()
        for pid, name in enumerate(names, start=1):
            ours, self.theirs[name] = socket.socketpair()
            self.children[name] = Child(name, ours, pid=pid)

    def __getitem__(self, name: str) -> Child:
        return self.children[name]

    def stack(self, child: Child | None, log: Path) -> str:
        return f"main.py, line 3 in {'own' if child is None else child.name}"

    def tell(self, what: Callable[[], None]) -> None:
        self._news.append(what)
        os.write(self._news_out, b"x")

    def dies(self, name: str, status: int, last: bytes = b"") -> None:
        """The next news is that it is gone; it sends ``last`` just before the news is read."""

        def die() -> None:
            if last:
                self.theirs[name].sendall(last)
            self[name].status = status
            self[name].link.close()

        self.tell(die)

    def fileno(self) -> int:
        return self._news_in

    def poll(self) -> None:
        if self._news:
            os.read(self._news_in, 1)
            self._news.pop(0)()

    def wait_for_exit(self, child: Child, deadline_s: float) -> None:
        while child.status is None and self._news:
            self.poll()

    def close(self) -> None:
        os.close(self._news_in)
        os.close(self._news_out)
        for name, child in self.children.items():
            child.link.close()
            self.theirs[name].close()


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTree]:
    monkeypatch.setattr(module, "SIGNAL_NEWS_S", 0.0)
    made = FakeTree(PROBE, "env-0", "env-1", "optimizer-0", "evaluator-0", "metrics-0")
    yield made
    made.close()


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    with Interrupts() as made:
        yield made


def ask(tree: FakeTree, interrupts: Interrupts, timeout_s: float = 10.0) -> EnvironmentSpec:
    environment, made_s = ask_probe(tree, tree[PROBE], START, interrupts, timeout_s)  # type: ignore[arg-type]
    assert made_s == 2.5
    return environment


def answer() -> bytes:
    return frame(msgspec.msgpack.encode({"spec": CARTPOLE, "made_s": 2.5}))


def test_answer_counts_although_the_link_stays_open(tree: FakeTree, interrupts: Interrupts) -> None:
    tree.theirs[PROBE].sendall(answer())
    assert ask(tree, interrupts) == CARTPOLE


def test_answer_counts_although_the_probe_is_gone_before_it_is_read(
    tree: FakeTree, interrupts: Interrupts
) -> None:
    """The news of its end closes the launcher's end of the link."""
    half = len(answer()) // 2
    tree.theirs[PROBE].sendall(answer()[:half])
    tree.dies(PROBE, 0, last=answer()[half:])
    assert ask(tree, interrupts) == CARTPOLE


def test_dead_probe_is_noticed_although_somebody_holds_its_link(
    tree: FakeTree, interrupts: Interrupts
) -> None:
    tree.dies(PROBE, 7)
    with pytest.raises(NodeFailed, match="looked at environment 'CartPole-v1' exited with status"):
        ask(tree, interrupts, timeout_s=3600.0)


def test_probe_that_was_reset_while_it_read_its_question_is_gone(
    tree: FakeTree, interrupts: Interrupts
) -> None:
    """The kernel reports a peer that died with unread data as a reset connection."""
    link = tree[PROBE].link.dup()
    link.sendall(b"question")
    tree.theirs[PROBE].close()
    tree.dies(PROBE, -9)
    deadline_s = time.monotonic() + 3600.0
    with link:
        assert await_answer(tree, tree[PROBE], link, interrupts, deadline_s) is None  # type: ignore[arg-type]
    assert tree[PROBE].status == -9


def test_probe_whose_death_is_told_late_executes_no_other_program(
    tree: FakeTree, interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the link may be closed for longer than such news takes."""

    def wait_for_exit(child: Child, deadline_s: float) -> None:
        if deadline_s > time.monotonic() + module.EXIT_NEWS_S:
            child.status = 7

    monkeypatch.setattr(tree, "wait_for_exit", wait_for_exit)
    tree[PROBE].pid = 1 << 30  # nobody has that one
    tree.theirs[PROBE].shutdown(socket.SHUT_WR)
    with pytest.raises(NodeFailed, match="looked at environment 'CartPole-v1' exited with status"):
        ask(tree, interrupts, timeout_s=3600.0)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", r"^the process .* exited with status 3 and left no stack"),
        ("licence expired", r"^licence expired\nthe process .* left no stack"),
        ("main.py (most recent call first)", r"its stack is above\. A reset"),
    ],
)
def test_stack_is_promised_only_where_there_is_one(
    tree: FakeTree, interrupts: Interrupts, tmp_path: Path, printed: str, said: str
) -> None:
    tree.log = tmp_path / "fork-server.log"
    tree.log.write_text(printed)
    tree.dies(PROBE, 3)
    with pytest.raises(NodeFailed, match=said):
        ask(tree, interrupts)


def test_probe_that_does_not_answer_is_given_up(tree: FakeTree, interrupts: Interrupts) -> None:
    with pytest.raises(NodeFailed, match=r"in probe\nenv.* and stepped within 0\.01 s"):
        ask(tree, interrupts, timeout_s=0.01)


def test_node_that_dies_beside_the_probe_is_named(tree: FakeTree, interrupts: Interrupts) -> None:
    tree.dies("env-1", -9)
    with pytest.raises(NodeFailed, match=r"env-1 was killed by SIGKILL .*logs/fork-server\.log"):
        ask(tree, interrupts)


def test_fork_server_that_imports_for_too_long_is_named(
    tree: FakeTree, interrupts: Interrupts
) -> None:
    tree[PROBE].pid = 0
    said = r"in own\nthe .* importing torch, own within 0\.01 s \(supervision\.start_timeout_s\)"
    with pytest.raises(NodeFailed, match=said):
        ask(tree, interrupts, timeout_s=0.01)


def test_waiting_ends_when_the_last_child_is_forked(tree: FakeTree, interrupts: Interrupts) -> None:
    waiting = [tree["env-0"], tree["env-1"]]
    for child in waiting:
        child.pid = 0
        tree.tell(lambda child=child: setattr(child, "pid", 5))  # type: ignore[misc]
    await_started(tree, waiting, interrupts, 10.0)  # type: ignore[arg-type]
    assert [child.pid for child in waiting] == [5, 5]


def test_child_that_dies_as_soon_as_it_is_forked_is_named(
    tree: FakeTree, interrupts: Interrupts
) -> None:
    tree["env-0"].pid = 0
    tree.tell(lambda: setattr(tree["env-0"], "pid", 5))
    tree["env-1"].pid = 0
    tree.dies("env-0", 3)
    with pytest.raises(NodeFailed, match=r"env-0 exited with status 3 before the run began"):
        await_started(tree, tree.children.values(), interrupts, 10.0)  # type: ignore[arg-type]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, make_config(supervision=SupervisionConfig(start_timeout_s=10)))


def roster(stage: Stage) -> Roster:
    names, stats = stage.plan.names, stage.memory.all_stats()
    return Roster(names, stats, awaited=(), optional=(), deaths={})


def supervisor_of(
    stage: Stage, interrupts: Interrupts, tree: object, shell: object, hub: object = None
) -> Supervisor:
    """One that watches no load."""
    given: Any = (tree, stage.memory, hub, shell, interrupts, lambda: 0.0)
    return Supervisor(stage.plan, *given)


def start_nodes(tree: FakeTree, interrupts: Interrupts, stage: Stage) -> None:
    hub = SimpleNamespace(path="socket", peer=str)
    shell = SimpleNamespace(roster=roster(stage), run=None)
    supervisor_of(stage, interrupts, tree, shell, hub).start()


def test_node_that_died_while_the_probe_was_asked_is_named(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    tree["optimizer-0"].status = -11
    with pytest.raises(NodeFailed, match="optimizer-0 was killed by SIGSEGV before the run"):
        start_nodes(tree, interrupts, stage)


def test_node_whose_link_breaks_is_named_with_how_it_died(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    tree.theirs["env-1"].close()
    tree.dies("env-1", 4)
    with pytest.raises(NodeFailed, match=r"env-1 exited with status 4 before .*fork-server\.log"):
        start_nodes(tree, interrupts, stage)


def test_node_whose_link_breaks_without_news_is_still_named(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    tree.theirs["env-1"].close()
    with pytest.raises(NodeFailed, match="env-1 was gone before it got its plan"):
        start_nodes(tree, interrupts, stage)


class SlowChannel:
    """Hub and shell: what a node said last is there only once it was waited for."""

    def __init__(self, said: Failed) -> None:
        self.said, self.arrived, self.taken = said, False, list[Failed]()
        self.end: EndRun | None = None
        self.failures = SimpleNamespace(has=lambda node: bool(self.taken))
        self.roster, self.run = SimpleNamespace(dying={}), None

    def wait(self, timeout_s: float, others: Sequence[int] = ()) -> list[int]:
        self.arrived = True
        return []

    def receive(self) -> bool:
        self.taken += [self.said] if self.arrived and not self.taken else []
        return bool(self.taken)


def test_last_words_count_although_the_news_of_the_end_is_quicker(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    """Whether a node refused the run, or failed, is known from them alone."""
    channel = SlowChannel(Failed("env-0", "starting", "does not fit", "", {}, refused=True))
    tree["env-0"].status = 1
    exits = SimpleNamespace(poll=lambda: [tree["env-0"]])
    supervisor_of(stage, interrupts, exits, channel, channel)._take_exits()
    assert channel.taken == [channel.said]


def test_node_that_comes_forward_no_more_is_told_how_to_go_on_without(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    taken: list[Failed] = []
    shell = SimpleNamespace(
        roster=roster(stage),
        overdue=lambda: ["env-0"],
        run=SimpleNamespace(log=Path),
        take=taken.append,
    )
    shell.roster.restores(Restoring("env-0", 3, 9), 0.0)
    supervisor_of(stage, interrupts, tree, shell)._check_start()
    assert taken[0].error.endswith("checkpoint.exact=never begins new ones instead")
    assert "in env-0" in taken[0].traceback


def test_successor_of_one_that_was_not_ready_in_time_gets_time_of_its_own(
    tree: FakeTree, interrupts: Interrupts, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shell = SimpleNamespace(
        roster=roster(stage),
        survives=lambda event: True,
        run=SimpleNamespace(log=Path),
        take=lambda event: None,
    )
    shell.roster.died("env-0")
    hub = SimpleNamespace(path="socket", peer=str, retire=lambda node: None)
    supervisor = supervisor_of(stage, interrupts, tree, shell, hub)
    supervisor.start()
    tree.spawn = lambda name, target, warm: None  # type: ignore[attr-defined]
    killed = []
    tree.send_signal = lambda child, number: killed.append(child.name)  # type: ignore[attr-defined]
    supervisor.spawn(Respawn("env-0", 2))
    clock[0] = 10.5
    supervisor._check_stalls()
    assert killed == ["env-0"]
    tree["env-0"].status = -9
    supervisor._take_exit(tree["env-0"])
    clock[0] = 12.0  # it waits before it is started once more
    supervisor._check_stalls()
    assert shell.roster.dying == {}


@pytest.mark.parametrize("died", [False, True])
def test_retired_node_is_killed_after_its_grace_time_and_never_who_bears_its_name_next(
    tree: FakeTree,
    interrupts: Interrupts,
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    died: bool,
) -> None:
    """The news of its death may be taken before that of its retirement is acted upon."""
    clock, killed = [0.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    tree.send_signal = lambda child, number: killed.append(child.name)  # type: ignore[attr-defined]
    silent = SimpleNamespace(decide=lambda what, why: None, say=lambda text: None)
    shell = SimpleNamespace(run=SimpleNamespace(log=Path), chronicle=silent, progress=silent)
    supervisor = supervisor_of(stage, interrupts, tree, shell)
    tree["env-1"].status = -9 if died else None
    supervisor._watch_retired(["env-1"])
    if died:
        tree["env-1"].status = None  # it was added again
    clock[0] = 3600.0
    supervisor._watch_retired(())
    assert killed == ([] if died else ["env-1"])


def test_end_does_not_wait_for_a_node_that_is_forked_only_now(
    tree: FakeTree, interrupts: Interrupts, stage: Stage
) -> None:
    """One that comes back when the run ends; it has no plan, so nobody can tell it to stop."""
    child, shell, signals = tree["env-0"], SimpleNamespace(run=None), list[int]()
    child.pid = 0
    shell.end, shell.stop_nodes, shell.tell_stop = EndRun("failed", ""), list, list

    def wait(timeout_s: float, others: Sequence[int]) -> None:
        child.pid, child.status = 5, -signals[0] if signals else None

    def send_signal(child: Child, number: int) -> None:
        assert child.pid
        signals.append(number)

    arriving = ["its", "last", "words"]  # which come after the news that it is gone
    shell.receive = lambda: bool(child.status and arriving and arriving.pop())
    given = SimpleNamespace(
        children=tree.children,
        living=lambda: [child] if child.status is None else [],
        poll=lambda: [child] if child.status else [],
        send_signal=send_signal,
        fileno=tree.fileno,
        close=lambda grace_s: None,
    )
    hub = SimpleNamespace(path="socket", wait=wait)
    supervisor_of(stage, interrupts, given, shell, hub)._stop()
    assert signals == [signal.SIGTERM]
    assert arriving == []
