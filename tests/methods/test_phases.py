import pytest
import torch
from torch import nn

import scumble
from scumble.errors import BudgetError, NetworkError
from scumble.methods import METHODS
from scumble.methods.phases import record_of
from scumble.nn.sparse_conv import SparseConv2d
from tests.networks import Tiny, keep_only, picture

EXAMPLES = {"sls": scumble.SLS(m=16), "oneshot": scumble.OneShot("4:16")}


@pytest.fixture(params=list(METHODS))
def method(request):
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
    assert not any(isinstance(module, SparseConv2d) for module in network.modules())


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


def test_padded_groups_prune_odd_widths(method):
    sparse = scumble.sparsify(Tiny(), method, size=(12, 10), pad_groups=True)
    if isinstance(method, scumble.SLS):
        keep_only(sparse, 4)
    plain, x = scumble.finalize(sparse), picture()
    assert "wide" in sparse.pruning.layers
    assert int((plain.wide.weight != 0).sum(1).max()) == 4
    torch.testing.assert_close(plain(x), sparse(x))


def test_any_module_works():
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Conv2d(8, 8, 3))
    pruned = scumble.finalize(scumble.sparsify(network, scumble.OneShot("1:8"), size=(9, 9)))
    assert int((pruned[2].weight != 0).sum()) == 8 * 9
