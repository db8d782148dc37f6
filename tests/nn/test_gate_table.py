import copy

import pytest
import torch

from scumble.nn.gate_table import FixedGates, LearnedGates, first


def test_fixed_gates_keep_the_first_n():
    table = FixedGates([1, 3], m=4)
    assert table().tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert table.counts() == [1, 3]
    assert list(table.parameters()) == []


def test_learned_gates_start_open():
    table = LearnedGates(layers=2, m=4)
    assert table.counts() == [4, 4]
    assert table.scores.shape == (2, 3)


def test_frozen_gates_no_longer_feel_their_scores():
    table = LearnedGates(layers=2, m=4)
    table.freeze_(first([2, 3], 4))
    with torch.no_grad():
        table.scores.zero_()
    table().sum().backward()
    assert table.counts() == [2, 3]
    assert not table.scores.grad.any()


def test_clamping_brings_scores_back_to_where_they_can_move():
    table = LearnedGates(layers=1, m=4, ceiling=1.0)
    with torch.no_grad():
        table.scores.copy_(torch.tensor([[-1.0, 0.5, 2.0]]))
    table.clamp_()
    assert table.scores.tolist() == [[0.0, 0.5, 1.0]]


class Asks(torch.nn.Module):
    """Runs nothing but its table, and sees whether the rows stood ready."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, fail: bool = False):
        if fail:
            raise ValueError("no picture")
        assert self.table.rows is not None
        return self.table.row(1)


def test_rows_stand_ready_only_while_the_network_runs():
    network = Asks(LearnedGates(2, 4))
    network.table.serve(network)
    network().sum().backward()
    assert network.table.rows is None
    with pytest.raises(ValueError, match="no picture"):
        network(fail=True)
    assert network.table.rows is None
    assert torch.equal(network.table.row(1), network())


def test_a_copy_is_served_by_its_own_table():
    network = Asks(LearnedGates(2, 4))
    network.table.serve(network)
    twin = copy.deepcopy(network)
    twin.table.freeze_(first([1, 1], 4))
    assert twin().sum() == 1
    assert network().sum() == 4
