from fast_core.events import Failed, NodeExited
from fast_core.scheduler.restart import Failures, describe


def test_first_failure_stays_the_cause() -> None:
    failures = Failures()
    first = describe(Failed("env0", "resetting shard 0", "ValueError: boom", "", {}))
    assert failures.verdict(first) == "end_run"
    assert failures.verdict(describe(NodeExited("env1", "killed by SIGKILL"))) == "end_run"
    assert failures.first is first
    assert failures.secondary == 1
