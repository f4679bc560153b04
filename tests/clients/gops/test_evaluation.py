"""An evaluation beside training, with a process that the test plays."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fast_core.clients.gops import evaluation as module  # noqa: E402
from fast_core.errors import NodeFailed  # noqa: E402


def test_evaluation_that_hangs_is_named_while_training_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, released = threading.Event(), threading.Event()

    class Remote:
        name = "evaluator (process 1)"

        def wait_until_ready(self, timeout_s: float) -> None:
            pass

        def __call__(self, *given: object) -> Any:
            entered.set()
            released.wait(30)
            return SimpleNamespace(score=1.0)

    household = SimpleNamespace(
        start=lambda *given: Remote(), weights=SimpleNamespace(put=lambda value: value)
    )
    monkeypatch.setattr(module, "Household", lambda: household)
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    evaluations = module.Evaluations(None, 600.0)  # type: ignore[arg-type]
    evaluations.begin(10, 40, torch.nn.Linear(2, 1))
    try:
        assert entered.wait(30)
        now[0] = 599.0
        assert evaluations.result(wait=False) is None
        now[0] = 601.0
        with pytest.raises(NodeFailed, match=r"evaluator \(process 1\) did not come .* 600 s"):
            evaluations.result(wait=False)
        now[0] = 599.0
    finally:
        released.set()
    done = evaluations.result(wait=True)
    assert done is not None
    assert done.score == 1.0
