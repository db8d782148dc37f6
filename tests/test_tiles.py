import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import scumble
from scumble.errors import NetworkError
from scumble.tiles import reach, run_tiled
from tests.networks import Tiny, picture

EXACT = 1e-12  # between two orders of summation in float64, where results are about 1


def conv(kernel, channels=3, **options):
    return nn.Conv2d(3, channels, kernel, padding="same", **options)


class Sum(nn.Module):
    """The picture as it is, and what is made of it."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return x + sum(branch(x) for branch in self.branches)


NETWORKS = {
    "edsr-x2": (2, lambda: scumble.build("edsr-x2", features=4, blocks=1), 6),
    "edsr-x3": (3, lambda: scumble.build("edsr-x3", features=4, blocks=2), 8),
    "edsr-x4": (4, lambda: scumble.build("edsr-x4", features=4, blocks=1), 6),
    "carn-x4": (4, lambda: scumble.build("carn-x4", features=4), 21),
    "reflecting": (1, lambda: nn.Sequential(conv(5, padding_mode="reflect"), nn.GELU()), 2),
}


@pytest.fixture(params=NETWORKS)
def case(request):
    torch.manual_seed(0)
    scale, build, known = NETWORKS[request.param]
    return build().double(), scale, known


@pytest.mark.parametrize(
    ("network", "known"),
    [
        (nn.Identity(), 0),
        (conv(1), 0),
        (conv(3), 1),
        (nn.Sequential(nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(3, 3, 4)), 2),
        (conv((1, 7)), 3),
        (conv(5, dilation=3), 6),
        (nn.Sequential(conv(3), nn.ReLU(), conv(5), nn.Sigmoid()), 3),
        (Sum(conv(3), conv(7)), 3),
        (nn.MaxPool2d(5, stride=1, padding=2), 2),
    ],
)
def test_the_reach_of_a_few_layers_is_what_one_counts(network, known):
    assert reach(network, 1) == known


def test_the_reach_of_whole_networks_is_what_one_counts(case):
    network, scale, known = case
    assert reach(network, scale) == known


def test_weights_of_zero_reach_as_far_as_others():
    network = conv(9)
    nn.init.zeros_(network.weight)
    assert reach(network, 1) == 4


@pytest.mark.parametrize("dilation", [5, 17, 40])
def test_what_lies_beyond_a_gap_is_found(dilation):
    assert reach(nn.Sequential(conv(3), conv(3, dilation=dilation)), 1) == dilation + 1
    assert reach(nn.Sequential(*(conv(3, dilation=dilation) for _ in range(2))), 1) == 2 * dilation


def test_a_reach_of_122_is_found_and_beyond_that_none():
    far = conv((1, 3), dilation=40), conv((1, 3), dilation=40)
    assert reach(nn.Sequential(*far, *(conv((1, 3)) for _ in range(3))), 1) == 83
    near = [conv((1, 15)) for _ in range(17)]
    assert reach(nn.Sequential(*near, conv((1, 7))), 1) == 122
    assert reach(nn.Sequential(*near, conv((1, 9))), 1) is None


class Choosy(nn.Module):
    def forward(self, x):
        if x.shape[-1] % 8:
            raise ValueError("needs multiples of 8")
        return x


class Positioned(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.shape[-1]) / 1000


class Coarse(nn.Module):
    """Sees blocks of pixels as one, and paints them as one."""

    def __init__(self, stride):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, stride=stride, padding=1)

    def forward(self, x):
        blocks = F.interpolate(self.conv(x), scale_factor=float(self.conv.stride[0]))
        return blocks[..., : x.shape[2], : x.shape[3]]


@pytest.mark.parametrize(
    "network",
    [
        Sum(nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(1))),
        nn.InstanceNorm2d(3),
        Choosy(),
        Positioned(),
        Coarse(2),
        Sum(Coarse(2), conv(15)),
        Tiny(),
    ],
    ids=lambda network: type(network).__name__,
)
def test_networks_that_no_tile_can_replace_have_no_reach(network):
    assert reach(network, 1) is None


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("further", range(6))
def test_strides_show_even_where_their_weights_are_zero(stride, further):
    dead = Coarse(stride)
    nn.init.zeros_(dead.conv.weight)
    network = nn.Sequential(Sum(dead), conv(2 * further + 1))
    assert reach(network, 1) is None


@pytest.mark.parametrize("blocks", [1, 4])
def test_rfdn_has_no_reach(blocks):
    network = scumble.build("rfdn-x2", features=8, attention=4, blocks=blocks)
    assert reach(network, 2) is None


def test_looking_for_the_reach_leaves_the_network_as_it_was():
    network = nn.Sequential(conv(3), nn.BatchNorm2d(3), nn.Dropout())
    before = {key: value.clone() for key, value in network.state_dict().items()}
    assert reach(network, 1) == 1
    assert network.training
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert network[0].weight.dtype == torch.float32


def test_a_network_that_cannot_run_is_refused():
    with pytest.raises(NetworkError) as refused:
        reach(nn.Linear(5, 5), 1)
    assert str(refused.value).startswith(
        "the reach of Linear cannot be found, because it cannot be run on a picture of "
        "32x32 pixels: mat1 and mat2 shapes cannot be multiplied"
    )


def test_a_network_of_another_scale_is_refused():
    network = scumble.build("edsr-x2", features=4, blocks=1)
    with pytest.raises(NetworkError) as refused:
        run_tiled(network, picture(8, 9), 3, tile=8, halo=6)
    assert str(refused.value) == (
        "a network of scale 3 needs to make 27x24 pixels of 9x8, got 18x16"
    )


@pytest.mark.parametrize(("tile", "halo"), [(0, 1), (4, -1)])
def test_tiles_of_no_size_are_refused(tile, halo):
    with pytest.raises(NetworkError) as refused:
        run_tiled(conv(3), picture(), 1, tile, halo)
    assert str(refused.value) == (
        f"tiles need at least 1 pixel and a halo of 0 or more, got {tile} and {halo}"
    )


def difference(network, image, scale, tile, halo):
    with torch.no_grad():
        whole = network(image)
    return (run_tiled(network, image, scale, tile, halo) - whole).abs().max().item()


# Tiles smaller than every halo, odd ones that leave a rest, larger than the picture.
@pytest.mark.parametrize("tile", [5, 16, 27, 100])
def test_tiles_give_what_the_whole_picture_gives(case, tile):
    network, scale, halo = case
    assert difference(network, picture(33, 47).double(), scale, tile, halo) <= EXACT


def test_tiles_in_single_precision_differ_by_rounding_alone(case):
    network, scale, halo = case
    assert difference(network.float(), picture(33, 47), scale, 16, halo) <= 1e-5


def look_left_(network):
    """Make every kernel weigh its left column most, so that the farthest pixel counts."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 0.01)
            nn.init.ones_(module.weight[..., 0])
            module.weight /= module.weight[0].sum()
    return network


@torch.no_grad()
def test_a_halo_one_pixel_too_narrow_shows(case):
    network, scale, halo = case
    image = picture(48, 48).double()
    assert difference(look_left_(network), image, scale, 24, halo) <= EXACT
    assert difference(look_left_(network), image, scale, 24, halo - 1) > 1000 * EXACT


@settings(max_examples=30)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 24), st.integers(3, 9))
def test_every_size_of_picture_tile_and_halo_is_exact(height, width, tile, halo):
    torch.manual_seed(0)
    layers = nn.Sequential(conv(3), nn.ReLU(), conv(3, channels=12), nn.PixelShuffle(2), conv(3))
    image = picture(height, width, batch=2).double()
    assert difference(layers.double(), image, 2, tile, halo) <= EXACT


def test_no_tile_is_larger_than_it_was_told():
    seen = []
    network = conv(3)
    network.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[2:]))
    run_tiled(network, picture(10, 7), 1, tile=4, halo=1)
    assert seen == [
        (5, 5), (5, 4),
        (6, 5), (6, 4),
        (3, 5), (3, 4),
    ]  # fmt: skip


def test_no_gradient_is_recorded():
    assert not run_tiled(conv(3), picture(), 1, tile=4, halo=1).requires_grad
