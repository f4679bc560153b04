import pytest
import torch

from fast_core.errors import ConfigError
from fast_core.nodes.learn.devices import check_device, found_devices, replica_device


def test_cpu_can_always_be_used():
    check_device("cpu", "nodes.optimizer.device")
    assert found_devices()[0] == "cpu"


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_missing_device_is_refused_with_those_that_are_there(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError) as failure:
        check_device(device, "nodes.policy.device")
    text = str(failure.value)
    assert "nodes.policy.device must be" in text and "(cpu, cuda:0, cuda:1)" in text
    assert repr(device) in text


def test_missing_backend_is_refused_with_one_sentence_of_torchs():
    if torch.backends.mps.is_available():
        pytest.skip("it is there")
    with pytest.raises(ConfigError) as failure:
        check_device("mps", "nodes.policy.device")
    assert "'MPS' backend. Use one of those" in str(failure.value)


def test_several_optimizers_are_spread_over_the_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [replica_device("cuda", 3, rank) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert replica_device("cuda", 1, 0) == "cuda", "one alone takes torch's default"
    assert replica_device("cuda:1", 3, 2) == "cuda:1", "what is named is kept"
    assert replica_device("cpu", 3, 2) == "cpu"
