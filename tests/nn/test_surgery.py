import pytest
import torch
from torch import nn

from scumble.errors import NetworkError, PatternError
from scumble.nn.gate_table import FixedGates
from scumble.nn.sparse_conv import SparseConv2d
from scumble.nn.surgery import choose, densify_, patterns, sparsify_
from tests.networks import Tiny, picture


def test_the_first_and_the_painting_convolution_stay_dense():
    assert list(choose(Tiny(), m=16)) == ["down", "shared", "odd"]


def test_padded_groups_reach_every_width_but_pictures():
    chosen = choose(Tiny(), m=16, pad_groups=True)
    assert list(chosen) == ["down", "shared", "odd", "wide"]


def test_a_selector_chooses_by_name_and_layer():
    assert list(choose(Tiny(), 16, lambda name, conv: name == "tail")) == ["tail"]


def test_a_layer_that_does_not_divide_is_refused_by_name():
    with pytest.raises(
        PatternError,
        match="layer wide: groups of 16 need input channels divisible by 16, got 10; "
        "choose another m, leave the layer out, or pad its groups",
    ):
        choose(Tiny(), 16, lambda name, conv: name == "wide")


def test_a_grouped_convolution_is_refused_by_name():
    with pytest.raises(PatternError, match="layer grouped: .* one group, got 4"):
        choose(Tiny(), 4, lambda name, conv: name == "grouped")


def test_a_network_without_fitting_layers_is_refused():
    with pytest.raises(PatternError, match="pruning in groups of 64 needs a convolution with"):
        choose(Tiny(), 64)


def test_a_bare_convolution_is_refused():
    with pytest.raises(NetworkError, match="needs a network around its layers"):
        choose(nn.Conv2d(8, 8, 3), 8)


def test_hooks_that_would_get_lost_are_refused():
    network = Tiny()
    network.down.register_forward_hook(lambda *_: None)
    with pytest.raises(NetworkError, match="layer down: pruning would lose its hooks"):
        choose(network, 16)


def test_a_layer_under_two_names_stays_one():
    network = Tiny()
    sparsify_(network, choose(network, 16), FixedGates([4, 4, 4], 16))
    assert isinstance(network.shared, SparseConv2d)
    assert network.again is network.shared


def test_there_and_back_leaves_zeros_keys_and_patterns():
    network, plain = Tiny(), Tiny()
    keys, x = list(network.state_dict()), picture()
    plain.load_state_dict(network.state_dict())
    sparsify_(network, choose(network, 16), FixedGates([4, 16, 2], 16))
    masked = network(x)
    densify_(network)
    assert list(network.state_dict()) == keys
    assert not any(isinstance(module, SparseConv2d) for module in network.modules())
    assert {k: str(p) for k, p in patterns(network).items()} == {
        "down": "4:16",
        "shared": "16:16",
        "odd": "2:16",
    }
    torch.testing.assert_close(network(x), masked)
    assert torch.equal(network.shared.weight, plain.shared.weight)
    assert not torch.equal(network.down.weight, plain.down.weight)


def test_four_outputs_paint_a_picture_and_five_do_not():
    network = nn.Sequential(nn.Conv2d(16, 4, 1), nn.Conv2d(16, 5, 1))
    assert list(choose(network, 16)) == ["1"]


def test_a_selector_that_selects_nothing_is_told():
    with pytest.raises(PatternError, match="where= selected none of the network's convolutions"):
        choose(Tiny(), 16, lambda name, conv: False)
