import pytest
import torch

from fast_core.errors import ConfigError
from fast_core.nodes.devices import check_device, found_devices


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
