import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.ranks import in_groups, in_rank_order, rank_in_group
from scumble.errors import PatternError
from tests.core.strategies import group_sizes, weights


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values).view(1, -1, 1, 1)


def test_rank_zero_is_the_largest_magnitude():
    assert rank_in_group(column(0.5, -3, 0, 1), 4).flatten().tolist() == [2, 0, 3, 1]


def test_every_group_is_ranked_by_itself():
    assert rank_in_group(column(1, 2, 9, 8), 2).flatten().tolist() == [1, 0, 0, 1]


def test_of_equals_the_lower_channel_comes_first():
    assert rank_in_group(column(1, -1, 1, 2), 4).flatten().tolist() == [1, 2, 3, 0]


def test_groups_lie_along_input_channels_only():
    weight = torch.tensor([[[[1.0, 5.0]], [[2.0, 4.0]]]])
    assert rank_in_group(weight, 2).tolist() == [[[[1, 0]], [[0, 1]]]]


@given(st.data(), group_sizes, st.booleans())
def test_each_rank_appears_once_in_each_group(data, m, whole):
    weight = data.draw(weights(m, whole))
    ranks = rank_in_group(weight, m, pad_groups=True)
    for group in ranks.split(m, dim=1):
        expected = torch.arange(group.shape[1], dtype=torch.uint8).view(1, -1, 1, 1)
        assert torch.equal(group.sort(dim=1).values, expected.expand_as(group))


@given(st.data(), group_sizes, st.booleans())
def test_rank_order_sorts_by_magnitude(data, m, whole):
    weight = data.draw(weights(m, whole))
    ordered = in_rank_order(weight, rank_in_group(weight, m, pad_groups=True), m)
    assert torch.equal(ordered.abs(), in_groups(weight.abs(), m).sort(2, descending=True).values)


def test_a_short_group_ranks_as_if_zeros_filled_it():
    assert rank_in_group(column(1, 2, 3, 0, 7), 4, pad_groups=True).flatten().tolist() == [
        2,
        1,
        0,
        3,
        0,
    ]


def test_channels_that_do_not_divide_are_refused():
    with pytest.raises(PatternError, match="groups of 8 need input channels divisible by 8, got 3"):
        rank_in_group(torch.ones(4, 3, 3, 3), 8)


def test_ranks_take_a_quarter_of_the_memory_of_the_weight():
    weight = torch.randn(64, 64, 3, 3)
    assert rank_in_group(weight, 32).nbytes * 4 == weight.nbytes
