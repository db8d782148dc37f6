import pytest
import torch

from scumble.devices import pick_device
from scumble.errors import NetworkError


def test_without_a_name_it_is_the_best_there_is():
    assert pick_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "meta", "gpu", ""])
def test_other_names_are_refused(name):
    with pytest.raises(NetworkError, match=f"a device is cpu or cuda, got '{name}'"):
        pick_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(NetworkError, match="cuda was asked for, and there is no CUDA device"):
        pick_device("cuda")
