import pytest
import torch
from torch import nn

import scumble
from scumble.errors import BudgetError, NetworkError, PatternError
from scumble.methods import METHODS
from scumble.methods.phases import record_of
from scumble.nn.masked_conv import MaskedConv2d
from tests.networks import Tiny, keep_only, picture

EXAMPLES = {
    "sls": scumble.SLS(m=16),
    "oneshot": scumble.OneShot("4:16"),
    "filter": scumble.Filter("1/2"),
    "sr-ste": scumble.SrSte("4:16"),
}


@pytest.fixture(params=list(METHODS))
def method(request):
    return EXAMPLES[request.param]


@pytest.fixture(params=[name for name in METHODS if name != "filter"])
def masking(request):
    """A method that puts masked layers in; filter pruning keeps the layers and makes them small."""
    return EXAMPLES[request.param]


def finished(method):
    sparse = scumble.sparsify(Tiny(), method, size=(12, 10))
    if isinstance(method, scumble.SLS):
        keep_only(sparse, 4)
    return sparse


def test_the_network_given_is_left_alone(method):
    network, x = Tiny(), picture()
    before, keys = network(x), list(network.state_dict())
    sparse = scumble.sparsify(network, method, size=(12, 10))
    sparse.down.weight.data.zero_()
    assert torch.equal(network(x), before)
    assert list(network.state_dict()) == keys
    assert not any(isinstance(module, MaskedConv2d) for module in network.modules())


def test_the_final_network_is_plain_and_gives_the_same_pictures(method):
    sparse, x = finished(method), picture()
    plain = scumble.finalize(sparse)
    torch.testing.assert_close(plain(x), sparse(x))
    assert list(plain.state_dict()) == list(Tiny().state_dict())
    assert {type(m) for m in plain.modules()} == {type(m) for m in Tiny().modules()}
    assert not plain._forward_hooks
    assert not plain._forward_pre_hooks
    assert record_of(plain).method == method.name


def test_finalizing_leaves_the_sparse_network_at_work(method):
    sparse, x = finished(method), picture()
    before = sparse(x)
    scumble.finalize(sparse)
    assert torch.equal(sparse(x), before)
    sparse(x).sum().backward()


def test_the_record_says_how(method):
    record = record_of(scumble.finalize(finished(method)))
    assert record.settings == method.settings()
    assert len(record.scores) == (3 if method.name == "sls" else 0)


def test_a_budget_not_met_is_refused():
    sparse = scumble.sparsify(Tiny(), scumble.SLS(m=16, budget="1/4"), size=(12, 10))
    with pytest.raises(BudgetError, match=r"not met yet: 1.0000 of .* are kept, 0.2500 may be"):
        scumble.finalize(sparse)


def test_finalizing_a_plain_network_is_refused():
    with pytest.raises(
        NetworkError, match="needs a network from scumble.sparsify, got a plain Tiny"
    ):
        scumble.finalize(Tiny())


def test_sparsifying_twice_is_refused(method):
    with pytest.raises(NetworkError, match="Tiny already has an attribute 'pruning'"):
        scumble.sparsify(finished(method), method)


def test_padded_groups_prune_odd_widths(masking):
    sparse = scumble.sparsify(Tiny(), masking, size=(12, 10), pad_groups=True)
    if isinstance(masking, scumble.SLS):
        keep_only(sparse, 4)
    plain, x = scumble.finalize(sparse), picture()
    assert "wide" in sparse.pruning.layers
    assert int((plain.wide.weight != 0).sum(1).max()) == 4
    torch.testing.assert_close(plain(x), sparse(x))


def test_any_module_works():
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Conv2d(8, 8, 3))
    pruned = scumble.finalize(scumble.sparsify(network, scumble.OneShot("1:8"), size=(9, 9)))
    assert int((pruned[2].weight != 0).sum()) == 8 * 9


def test_a_network_that_runs_its_children_in_turn_does_not_notice(method):
    network = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
    sparse, x = scumble.sparsify(network, method, size=(9, 9)), picture()
    sparse(x).sum().backward()
    if isinstance(method, scumble.SLS):
        assert torch.equal(sparse(x), network(x))
        keep_only(sparse, 4)
    torch.testing.assert_close(scumble.finalize(sparse)(x), sparse(x))


def test_settings_read_back(method):
    assert type(method)(**method.settings()) == method


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 16, 1)
        self.one, self.two = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 1)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(self.one(self.head(x)))


def test_layers_that_share_a_weight_are_refused(masking):
    with pytest.raises(PatternError, match="layers one and two share one weight"):
        scumble.sparsify(Shared(), masking, size=(9, 9))


class Around(nn.Module):
    """Uses one layer's weight without running the layer, and keeps another in a plain list."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.head, self.inner = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 1)
        self.hidden = [self.inner]

    def forward(self, x):
        x = self.head(x)
        if self.kind == "list":
            return self.hidden[0](x)
        return nn.functional.conv2d(x, self.inner.weight)


@pytest.mark.parametrize("kind", ["list", "functional"])
def test_a_layer_that_is_not_run_as_a_module_is_refused(masking, kind):
    with pytest.raises(NetworkError, match="layer inner is not run as a module"):
        scumble.sparsify(Around(kind), masking, size=(9, 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_work(method, dtype):
    sparse = scumble.sparsify(Tiny().to(dtype), method, size=(12, 10))
    (sparse(picture().to(dtype)).float().sum() + sparse.pruning.penalty()).backward()
    later = scumble.sparsify(Tiny(), method, size=(180, 320)).to(dtype)
    before = scumble.sparsify(Tiny(), method, size=(180, 320)).pruning.penalty()
    assert later(picture().to(dtype)).dtype == dtype
    assert later.pruning.penalty().dtype == torch.float32
    assert later.pruning.penalty() == before


def test_frozen_weights_and_modes_stay_as_they_are(method):
    network = Tiny().eval()
    network.down.weight.requires_grad_(False)
    sparse = scumble.sparsify(network, method, size=(12, 10))
    assert not sparse.down.weight.requires_grad
    assert not sparse.down.training
    if isinstance(method, scumble.SLS):
        keep_only(sparse, 4)
    plain = scumble.finalize(sparse)
    assert not plain.down.weight.requires_grad
    assert plain.shared.weight.requires_grad
    assert not plain.down.training


def test_hooks_put_on_a_sparse_layer_are_not_lost_silently(masking):
    sparse = finished(masking)
    sparse.down.register_forward_pre_hook(lambda *_: None)
    with pytest.raises(NetworkError, match="pruning would lose its hooks"):
        scumble.finalize(sparse)


def test_what_is_no_method_or_no_size_is_refused():
    with pytest.raises(
        NetworkError, match=r"needs a method such as scumble.SLS\(budget='1/8'\), got 'sls'"
    ):
        scumble.sparsify(Tiny(), "sls")
    with pytest.raises(
        NetworkError, match=r"a size is \(height, width\), such as \(180, 320\), got 8"
    ):
        scumble.sparsify(Tiny(), scumble.SLS(m=16), size=8)
    computed = nn.Sequential(nn.Conv2d(3, 16, 1))
    computed[0].cached = computed[0].weight * 2  # the result of a computation cannot be copied
    with pytest.raises(NetworkError, match="Sequential cannot be copied, so it cannot be pruned"):
        scumble.sparsify(computed, scumble.SLS(m=16))
