import pytest
import torch
from torch import nn

import scumble
from scumble.errors import NetworkError
from scumble.nn.tracing import trace
from tests.networks import Tiny


def by_name(cost):
    return {layer.name: layer for layer in cost.layers}


def test_positions_are_counted_where_the_weight_is_applied():
    layers = by_name(trace(Tiny(), (12, 10)))
    assert layers["head"].positions == 120
    assert layers["down"].positions == 30
    assert layers["up"].positions == 30
    assert layers["up"].kind == "conv_transpose"
    assert layers["up"].macs == 16 * 16 * 4 * 30
    assert layers["grouped"].macs == 16 * 4 * 9 * 30


def test_a_layer_that_runs_twice_costs_twice_and_weighs_once():
    cost = trace(Tiny(), (12, 10))
    assert by_name(cost)["shared"].positions == 60
    assert cost.parameters == sum(p.numel() for p in Tiny().parameters())


def test_nothing_real_is_computed_or_kept():
    # A picture of 10^12 pixels: any real allocation would fail.
    assert by_name(trace(Tiny(), (10**6, 10**6)))["head"].positions == 10**12


def test_it_leaves_the_network_as_it_was():
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).eval(), nn.Dropout())
    before = {key: value.clone() for key, value in network.state_dict().items()}
    trace(network, (8, 8))
    assert [module.training for module in network] == [True, False, True]
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())
    assert not any(module._forward_hooks for module in network.modules())


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        tokens = self.embed(x.flatten(2).transpose(1, 2)) * self.scale
        return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)


def test_linear_layers_and_attention_count_too():
    cost = trace(Attending(), (4, 5))
    kinds = [(layer.kind, layer.macs, layer.parameters) for layer in cost.layers]
    assert kinds == [("linear", 3 * 8 * 20, 32), ("matmul", 20 * 8 * 20, 0), ("matmul", 3200, 0)]
    assert cost.other_parameters == 8


def test_patterns_of_sparse_layers_and_of_finalized_ones_are_seen():
    sparse = scumble.sparsify(Tiny(), scumble.OneShot("2:16"), size=(8, 8))
    pruned = scumble.finalize(sparse)
    for network in (sparse, pruned):
        cost = trace(network, (12, 10))
        assert by_name(cost)["down"].macs == 16 * 2 * 9 * 30
        assert cost.parameters == sum(int((p != 0).sum()) for p in pruned.parameters())


def test_scores_of_a_search_are_no_parameters_of_the_network():
    sparse = scumble.sparsify(Tiny(), scumble.SLS(m=16), size=(8, 8))
    assert trace(sparse, (8, 8)).other_parameters == 0


def test_a_network_that_cannot_run_is_refused_in_one_sentence():
    with pytest.raises(NetworkError, match="Sequential cannot be run on an RGB picture of 8x6: "):
        trace(nn.Sequential(nn.Conv2d(4, 8, 3)), (6, 8))
