import pytest
import torch
from torch import nn

from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from scumble.nn.gate_table import FixedGates, LearnedGates
from scumble.nn.sparse_conv import SparseConv2d

CONVS = {
    "plain": lambda: nn.Conv2d(8, 5, 3),
    "strided": lambda: nn.Conv2d(8, 5, 3, stride=2, padding=1),
    "dilated": lambda: nn.Conv2d(8, 5, 3, padding="same", dilation=2),
    "reflecting": lambda: nn.Conv2d(8, 5, (1, 3), padding=(0, 1), padding_mode="reflect"),
    "without bias": lambda: nn.Conv2d(8, 5, 1, bias=False),
    "double": lambda: nn.Conv2d(8, 5, 5).double(),
}


@pytest.mark.parametrize("kind", CONVS)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_it_is_the_convolution_with_the_masked_weight(kind, n):
    conv = CONVS[kind]()
    x = torch.randn(2, 8, 9, 7, dtype=conv.weight.dtype)
    table = FixedGates([4, n], m=4)
    sparse = SparseConv2d(conv, table.to(conv.weight.dtype), row=1)
    masked = CONVS[kind]()
    masked.load_state_dict(conv.state_dict())
    with torch.no_grad():
        masked.weight *= largest(conv.weight, Pattern(n, 4))
    torch.testing.assert_close(sparse(x), masked(x))
    torch.testing.assert_close(sparse.to_dense()(x), masked(x))


def test_it_keeps_the_parameters_themselves():
    conv = nn.Conv2d(8, 4, 3)
    sparse = SparseConv2d(conv, LearnedGates(1, 8), 0)
    assert sparse.weight is conv.weight
    assert sparse.bias is conv.bias
    assert [name for name, _ in sparse.named_parameters()] == ["weight", "bias"]


def test_pruned_weights_wait_for_the_next_ranking():
    conv = nn.Conv2d(2, 1, 1, bias=False)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([2.0, 1.0]).view(1, 2, 1, 1))
    sparse = SparseConv2d(conv, FixedGates([1], 2), 0)
    x = torch.tensor([1.0, 10.0]).view(1, 2, 1, 1)
    assert sparse(x).item() == 2
    with torch.no_grad():
        sparse.weight.mul_(torch.tensor([0.1, 1.0]).view(1, 2, 1, 1))
    assert sparse(x).item() == pytest.approx(0.2)
    sparse.rerank_()
    assert sparse(x).item() == 10


def test_zeros_of_the_dense_layer_are_positive():
    conv = nn.Conv2d(4, 2, 1)
    with torch.no_grad():
        conv.weight.fill_(-1.0)
    dense = SparseConv2d(conv, FixedGates([1], 4), 0).to_dense()
    zeros = dense.weight[dense.weight == 0]
    assert zeros.numel() == 6
    assert not torch.signbit(zeros).any()
