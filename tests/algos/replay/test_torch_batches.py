"""Batches from replay on the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fast_core.algos.nets.images import find_images
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets_torch.staging import make_staging
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.torch_batches import Batches
from tests.algos.pixel_cases import SEEN, pixel_batch, pixel_environment


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_declared_columns_come_with_the_rest_and_change_nothing_of_it(seen: str, name: str) -> None:
    environment = pixel_environment(name, seen)
    encoder = ObservationEncoder(environment, find_images(environment))
    upload = Uploader(make_staging(torch.device("cpu")))
    batches = Batches(encoder, upload, None, discrete=name == "dqn")
    plain = pixel_batch(environment)
    extra = {"cost": np.arange(6, dtype=np.float32), "tag": np.arange(12).reshape(6, 2)}
    without, found = (batches.take(each) for each in (plain, replace(plain, extra=extra)))
    assert without.extra == {} and found.extra.keys() == extra.keys()
    for column, tensor in found.extra.items():
        np.testing.assert_array_equal(tensor, extra[column])
    assert len(found.obs.images) == len(found.next_obs.images) == len(find_images(environment))
    for one, other in ((found.obs, without.obs), (found.next_obs, without.next_obs)):
        np.testing.assert_array_equal(one.vector, other.vector)
        for mine, theirs in zip(one.images, other.images, strict=True):
            np.testing.assert_array_equal(mine, theirs)
