import numpy as np
import pytest
import torch
from torch import nn

import scumble
from scumble.errors import EngineError, NetworkError
from scumble.restore import Restorer
from tests.restore.photos import Blur, Nearest, samples


def small(name: str) -> nn.Module:
    arguments = {"edsr-x4": {"features": 8, "blocks": 2}, "carn-x4": {}, "edsr-x3": {"blocks": 1}}
    return scumble.build(name, **arguments[name])


@pytest.mark.parametrize("name", ["edsr-x4", "carn-x4", "edsr-x3"])
def test_tiles_change_no_bit_with_the_cpu_engine(name):
    network, picture = small(name), samples(101, 133)
    with torch.no_grad():  # tell the levels of 16 bits apart
        whole = Restorer(network, engine="cpu", threads=1).image(picture.astype(np.uint16) * 257)
        tiled = Restorer(network, engine="cpu", threads=1, tile=64)
    assert np.array_equal(tiled.image(picture.astype(np.uint16) * 257), whole)


def test_tiles_of_other_engines_differ_by_a_level_at_most():
    network, picture = small("edsr-x4"), samples(101, 133)
    whole = Restorer(network, engine="reference").image(picture).astype(int)
    tiled = Restorer(network, engine="reference", tile=48).image(picture).astype(int)
    assert abs(tiled - whole).max() <= 1


def test_tiles_are_exact_for_networks_of_others():
    picture = samples(70, 90)
    torch.manual_seed(1)
    network = Blur()
    whole = Restorer(network, engine="cpu", threads=1).image(picture)
    assert np.array_equal(Restorer(network, engine="cpu", threads=1, tile=32).image(picture), whole)


def test_a_tile_that_its_halo_fills_is_refused():
    restorer = Restorer(Blur(), engine="reference", tile=20)
    with pytest.raises(
        EngineError,
        match="tiles need at least 24 pixels a side, because the network looks 4 around each, "
        "got 20",
    ):
        restorer.image(samples(70, 90))


def test_a_network_that_looks_at_the_whole_picture_says_that_tiles_changed_it():
    network = scumble.build("rfdn-x2", features=8)
    whole, tiled = (Restorer(network, engine="reference", tile=t) for t in (None, 128))
    picture = samples(150, 190)
    difference = abs(tiled.image(picture).astype(int) - whole.image(picture).astype(int))
    assert not whole.runner.approximate
    assert tiled.runner.approximate
    assert difference.mean() < 1


class Hungry(nn.Module):
    """Repeats pixels, and finds no memory for tiles above a size."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.asked = most, []

    def forward(self, image):
        self.asked.append(max(image.shape[2:]))
        if self.asked[-1] > self.most:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return torch.nn.functional.interpolate(image, scale_factor=2, mode="nearest")


def hungry(most: int, **options) -> Restorer:
    restorer = Restorer(Nearest(), engine="reference", **options)
    restorer.runner.compiled.network = Hungry(most)
    return restorer


def test_out_of_memory_halves_the_tiles_and_goes_on():
    restorer, picture = hungry(100, tile=256), samples(300, 310)
    assert np.array_equal(restorer.image(picture), picture.repeat(2, 0).repeat(2, 1))
    network = restorer.runner.compiled.network
    assert network.asked[0] > 100
    tiles = network.asked[-1]
    network.asked.clear()
    restorer.image(picture)  # the next picture begins where the last one ended
    assert max(network.asked) == tiles <= 100


def test_out_of_memory_halves_a_picture_that_was_whole():
    restorer, picture = hungry(100), samples(300, 310)
    assert restorer.image(picture).shape == (600, 620, 3)


def test_too_little_memory_for_any_tile_is_said():
    with pytest.raises(EngineError, match="there is too little memory even for tiles of 64 pixels"):
        hungry(3, tile=256).image(samples(300, 310))


def test_other_errors_of_a_network_pass():
    restorer = hungry(100)
    restorer.runner.compiled.network = nn.Conv2d(4, 3, 1)
    with pytest.raises(RuntimeError, match="expected input"):
        restorer.image(samples(30, 31))


def test_values_that_are_no_numbers_are_refused():
    restorer = hungry(100)
    restorer.runner.compiled.network = lambda image: image.repeat(1, 1, 2, 2) * torch.nan
    with pytest.raises(NetworkError, match="values that are no numbers"):
        restorer.image(samples(30, 31))
