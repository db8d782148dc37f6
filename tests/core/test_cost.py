import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.cost import (
    LayerCost,
    NetworkCost,
    gated_macs,
    kept_weights,
    macs,
    macs_per_rank,
    weights_per_rank,
)
from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from tests.core.strategies import group_sizes, patterns, weights


def test_a_convolution_by_hand():
    assert macs((8, 32, 3, 3), positions=9 * 7) == 8 * 32 * 9 * 63
    assert macs((8, 32, 3, 3), positions=9 * 7, pattern=Pattern(26, 32)) == 8 * 26 * 9 * 63


def test_a_short_group_cannot_keep_more_than_it_has():
    assert weights_per_rank((1, 5, 1, 1), 4) == [2, 1, 1, 1]
    assert kept_weights((1, 5, 1, 1), Pattern(2, 4)) == 3


@given(st.data(), patterns(), st.booleans())
def test_the_count_is_what_a_mask_really_keeps(data, pattern, whole):
    weight = data.draw(weights(pattern.m, whole))
    kept = int(largest(weight, pattern, pad_groups=True).sum())
    assert kept_weights(weight.shape, pattern) == kept


@given(st.integers(1, 8), st.integers(1, 100), group_sizes)
def test_cost_never_falls_as_n_grows(out, channels, m):
    costs = [macs((out, channels, 3, 3), 7, Pattern(n, m)) for n in range(1, m + 1)]
    assert costs == sorted(costs)
    assert costs[-1] == macs((out, channels, 3, 3), 7)


@given(patterns())
def test_gated_macs_agree_with_the_pattern(pattern):
    shape, positions = (6, 2 * pattern.m, 3, 3), 35
    gates = (torch.arange(pattern.m) < pattern.n).float()
    ranks = torch.tensor([macs_per_rank(shape, positions, pattern.m)], dtype=torch.float32)
    assert float(gated_macs(gates[None], ranks)) == pytest.approx(macs(shape, positions, pattern))


def test_biases_scale_with_the_weights_that_padded_groups_keep():
    # Each output has groups of 4 and 1 channels: 2:4 keeps 2 and 1, three weights of five.
    pruned = LayerCost("a", "conv", (8, 5, 1, 1), 10, 80, 8, Pattern(2, 4))
    dense = LayerCost("b", "conv_transpose", (8, 5, 2, 2), 10, 200, 5)
    cost = NetworkCost((pruned, dense), activations=7, other_parameters=1)
    assert cost.conv_macs == 240 + 1600
    assert cost.paper_macs == 1840 + 80 + 200 + 7
    assert cost.paper_macs_scaled == 1840 + 48 + 200 + 7
    assert cost.parameters == 24 + 8 + 160 + 5 + 1


def test_a_weight_that_another_layer_owns_costs_macs_only():
    layer = LayerCost("a", "conv", (8, 4, 1, 1), 10, pattern=Pattern(2, 4), owns_weight=False)
    assert (layer.macs, layer.parameters, layer.dense_parameters) == (160, 0, 0)
