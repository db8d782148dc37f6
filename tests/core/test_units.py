import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.ranks import rank_in_group
from scumble.core.units import decompose, gated_sum
from tests.core.strategies import group_sizes, patterns, weights


@given(st.data(), group_sizes)
def test_the_units_sum_to_the_weight(data, m):
    weight = data.draw(weights(m))
    assert torch.equal(decompose(weight, m).sum(0), weight)


@given(st.data(), group_sizes)
def test_a_unit_has_at_most_one_weight_per_group(data, m):
    units = decompose(data.draw(weights(m)), m)
    assert int((units != 0).unflatten(2, (-1, m)).sum(3).max()) <= 1


@given(st.data(), patterns())
def test_the_gated_sum_is_the_sum_of_the_gated_units(data, pattern):
    weight = data.draw(weights(pattern.m))
    gates = (torch.arange(pattern.m) < pattern.n).float()
    units = decompose(weight, pattern.m) * gates.view(-1, 1, 1, 1, 1)
    assert torch.equal(gated_sum(weight, gates, rank_in_group(weight, pattern.m)), units.sum(0))


@given(st.data(), group_sizes, st.booleans())
def test_its_gradients_are_those_of_plain_autograd(data, m, whole):
    weight = data.draw(weights(m, whole)).double().requires_grad_()
    ranks = rank_in_group(weight.detach(), m, pad_groups=True)
    gates = torch.rand(m, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(weight.shape, dtype=torch.float64)
    ours = torch.autograd.grad(gated_sum(weight, gates, ranks), (weight, gates), upstream)
    plain = torch.autograd.grad(weight * gates[ranks.int()], (weight, gates), upstream)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_it_remembers_nothing_but_its_inputs():
    weight = torch.randn(64, 64, 3, 3, requires_grad=True)
    gates, ranks = torch.ones(32, requires_grad=True), rank_in_group(weight.detach(), 32)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        gated_sum(weight, gates, ranks)
    beside = [t for t in kept if t.data_ptr() != weight.data_ptr()]
    assert sum(t.nbytes for t in beside) <= weight.nbytes / 4 + gates.nbytes
