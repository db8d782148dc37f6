import copy
import logging
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
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
    assert not any(module._forward_pre_hooks for module in network.modules())


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


class Caching(nn.Module):
    """Keeps what it computes, in every way that networks do."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("calls", torch.zeros(1))
        self.grid = None
        self.history = []

    def forward(self, x):
        self.calls += 1
        if self.grid is None:
            self.grid = torch.arange(float(x.shape[3]), device=x.device)
        self.history.append(self.conv(x * self.grid))
        return self.history[-1]


def test_nothing_of_the_trace_stays_in_a_network_that_caches():
    network = Caching()
    trace(network, (8, 8))
    assert (network.grid, network.history, float(network.calls)) == (None, [], 0)
    network(torch.rand(1, 3, 8, 8))
    # Now it holds results that require gradients, which cannot be copied.
    assert trace(network, (8, 8)).parameters == 3 * 4 * 9 + 4
    assert [type(kept) for kept in network.history] == [torch.Tensor]


class Holding(nn.Module):
    seen: ClassVar = []

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(3, 1, 1))
        self.cached = [torch.ones(3, 1, 1)]

    def forward(self, x):
        self.seen.extend([self.table, *self.cached])
        return x * self.table * self.cached[0]


def test_a_trace_copies_no_large_tensor():
    network = Holding()
    trace(network, (4, 4))
    assert [id(tensor) for tensor in Holding.seen] == [id(network.table), id(network.cached[0])]


def test_a_sparse_network_still_works_after_a_trace():
    sparse = scumble.sparsify(Tiny(), scumble.SLS(m=16), size=(8, 8))
    image = torch.rand(1, 3, 8, 8)
    before = sparse(image)
    trace(sparse, (8, 8))
    assert torch.equal(sparse(image), before)
    assert sparse.pruning.table.rows is None


class Asking(nn.Conv2d):
    answers: ClassVar = []

    def forward(self, x):
        self.answers.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return super().forward(x)


@pytest.mark.parametrize("around", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_the_mode_around_makes_no_difference(around):
    Asking.answers.clear()
    with around():
        network = nn.Sequential(Asking(3, 8, 3, padding=1))
        cost = scumble.inspect(network, (6, 5)).cost
    assert cost.conv_macs == 3 * 8 * 9 * 30
    assert Asking.answers == [(False, False)]


def test_biases_of_a_transposed_convolution_belong_to_its_output():
    layer = by_name(trace(nn.Sequential(nn.ConvTranspose2d(3, 5, 4, stride=4)), (2, 3)))["0"]
    assert (layer.positions, layer.macs) == (6, 3 * 5 * 16 * 6)
    assert layer.bias_additions == 5 * 8 * 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(self.embed(x).flatten(2).transpose(1, 2))


@pytest.mark.parametrize("fast", [True, False])
def test_attention_of_torch_is_seen_in_full(fast):
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        cost = trace(Encoder().eval(), (4, 5))
        assert torch.backends.mha.get_fastpath_enabled() is fast
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    weights = 3 * 8 + 3 * 8 * 8 + 8 * 8 + 2 * 8 * 16
    assert cost.conv_macs == 20 * weights + 2 * (20 * 20 * 8)
    assert cost.bias_additions == 20 * (8 + 24 + 8 + 16 + 8)
    assert cost.parameters == sum(p.numel() for p in Encoder().parameters())


class Heads(nn.Module):
    def forward(self, x):
        heads = x.flatten(2).unflatten(2, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads)


def test_every_head_of_an_attention_counts():
    # Two heads of three tokens, 20 wide: both products are 3 x 20 x 3 in each.
    assert trace(Heads(), (5, 8)).conv_macs == 2 * 2 * 3 * 20 * 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_networks_of_other_precisions_are_traced(dtype):
    assert trace(Tiny().to(dtype), (12, 10)) == trace(Tiny(), (12, 10))


class Placing(nn.Sequential):
    def forward(self, x):
        assert x.device == self[0].weight.device
        return super().forward(x + torch.ones(x.shape[2:], device=x.device))


def test_a_network_is_traced_on_its_own_device():
    network = Placing(nn.Conv2d(3, 8, 3))
    assert trace(copy.deepcopy(network).to("meta"), (8, 8)) == trace(network, (8, 8))


def test_a_network_without_memory_is_traced():
    with torch.device("meta"):
        network = scumble.build("carn-x4", features=8)
    assert trace(network, (8, 8)) == trace(scumble.build("carn-x4", features=8), (8, 8))


class Tied(nn.Module):
    """Two convolutions of one weight, and a bias that is no parameter."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 8, 1)
        self.first = nn.Conv2d(8, 8, 1)
        self.second = nn.Conv2d(8, 8, 1)
        self.second.weight, self.second.bias = self.first.weight, self.first.bias
        self.tail = nn.Conv2d(8, 8, 1, bias=False)
        self.register_buffer("offset", torch.ones(8))

    def forward(self, x):
        y = self.second(self.first(self.head(x)))
        return F.conv2d(y, self.tail.weight, self.offset)


def test_every_parameter_counts_once_and_buffers_never():
    cost = trace(Tied(), (2, 2))
    assert cost.other_parameters == 0
    assert cost.parameters == sum(p.numel() for p in Tied().parameters()) == 32 + 72 + 64
    assert cost.conv_macs == 4 * (3 * 8 + 3 * 64)
    assert cost.bias_additions == 4 * 8 * 4
    assert by_name(cost)["second"].parameters == 0


def test_a_convolution_called_by_its_weight_is_counted_as_that_layer():
    layer = by_name(trace(Tied(), (2, 2)))["tail"]
    assert (layer.kind, layer.macs, layer.parameters) == ("conv", 256, 64)
    counted = scumble.inspect(Tied(), (2, 2), "2:8", lambda name, _: name == "tail").cost
    assert by_name(counted)["tail"].parameters == 16


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(8, 3))
        self.b = nn.Parameter(torch.ones(8, 8))
        self.bias = nn.Parameter(torch.ones(8))
        self.fixed = nn.Parameter(torch.ones(1, 1, 3, 3))
        self.register_buffer("blur", torch.ones(8, 1, 3, 3))

    def forward(self, x):
        smooth = F.conv2d(x, self.fixed.expand(3, 1, 3, 3), groups=3, padding=1)
        tokens = F.linear(smooth.flatten(2).transpose(1, 2), self.a, self.bias)
        mixed = (self.b @ tokens[0].T).unflatten(1, x.shape[2:]).unsqueeze(0)
        y = F.conv2d(mixed, self.blur, groups=8, padding=1)
        return F.conv2d(y, y.mean((0, 2, 3)).view(1, 8, 1, 1))


def test_products_with_parameters_are_told_from_products_of_results():
    cost = trace(Functional(), (4, 5))
    found = [(layer.kind, layer.macs, layer.parameters) for layer in cost.layers]
    assert found == [
        ("conv", 27 * 20, 0),  # nine parameters, spread out: they count as others
        ("linear", 24 * 20, 24 + 8),
        ("linear", 64 * 20, 64),
        ("conv", 72 * 20, 0),
        ("dynamic_conv", 8 * 20, 0),
    ]
    assert cost.bias_additions == 8 * 20
    assert cost.other_parameters == 9


class Folding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        quarters = x.unflatten(2, (2, -1)).unflatten(4, (2, -1)).permute(0, 2, 4, 1, 3, 5)
        return self.conv(quarters.flatten(0, 2))


def test_pictures_folded_into_the_batch_count_each():
    layer = by_name(trace(Folding(), (6, 8)))["conv"]
    assert (layer.positions, layer.bias_additions) == (48, 4 * 48)


def test_a_network_in_training_is_traced_as_it_will_run():
    # Batch normalisation has nothing to normalise in a single pixel while it trains.
    network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)).train()
    assert trace(network, (1, 1)).other_parameters == 16
    assert network.training


@pytest.mark.parametrize(
    "norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
)
def test_a_weight_computed_from_parameters_is_a_layers_weight(norm):
    network = nn.Sequential(norm(nn.Conv2d(3, 4, 3)))
    cost = trace(network, (5, 5))
    assert [(layer.name, layer.kind, layer.owns_weight) for layer in cost.layers] == [
        ("0", "conv", True)
    ]
    assert cost.parameters == sum(p.numel() for p in network.parameters())


def test_values_of_the_five_counted_activations_are_added_up():
    counted = [nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.ELU()]
    network = nn.Sequential(*counted, nn.GELU(), nn.Sigmoid())
    assert trace(network, (4, 5)).activations == 5 * 60


def test_a_failed_trace_leaves_torch_as_it_was():
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level, torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(NetworkError):
        trace(nn.Conv2d(4, 8, 3), (6, 8))
    assert before == (logger.level, torch.backends.mha.get_fastpath_enabled())


def test_a_network_that_cannot_run_is_refused_in_one_sentence():
    with pytest.raises(NetworkError, match="Sequential cannot be run on an RGB picture of 8x6: "):
        trace(nn.Sequential(nn.Conv2d(4, 8, 3)), (6, 8))
