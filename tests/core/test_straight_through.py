import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from scumble.core.straight_through import refined


def test_gradient_and_update_by_hand():
    """Two groups of four at 2:4, and one step of gradient descent with a rate of 0.1."""
    weight = torch.tensor([3.0, -4, 2, 1, -1, 0.5, 0, 2]).view(1, 8, 1, 1).requires_grad_()
    run = refined(weight, largest(weight.detach(), Pattern(2, 4)), decay=0.5)
    assert run.flatten().tolist() == [3, -4, 0, 0, -1, 0, 0, 2]
    upstream = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8]).view(1, 8, 1, 1)
    run.backward(upstream)
    expected = [1, 2, 3 + 0.5 * 2, 4 + 0.5 * 1, 5, 6 + 0.5 * 0.5, 7, 8]
    assert weight.grad.flatten().tolist() == expected
    torch.optim.SGD([weight], lr=0.1).step()
    after = [2.9, -4.2, 1.6, 0.55, -1.5, -0.125, -0.7, 1.2]
    torch.testing.assert_close(weight.detach().flatten(), torch.tensor(after))


shapes = st.sampled_from([(4, 1), (4, 2), (4, 4), (8, 3), (16, 5), (32, 4)])


@given(shapes, st.integers(0, 2**16), st.floats(0, 1))
def test_it_is_the_publications_sparse_convolution(shape, seed, decay):
    """Theirs in a few lines: the gradient of the masked weight, and decay times the rest."""
    m, n = shape
    chance = torch.Generator().manual_seed(seed)
    weight = torch.randn(3, 2 * m, 2, 1, generator=chance)
    upstream = torch.randn(weight.shape, generator=chance)
    groups = weight.permute(0, 2, 3, 1).reshape(-1, m)
    mask = torch.zeros_like(groups)
    mask.scatter_(1, groups.abs().topk(n, dim=1).indices, 1.0)
    mask = mask.view(3, 2, 1, 2 * m).permute(0, 3, 1, 2)
    ours = weight.clone().requires_grad_()
    run = refined(ours, largest(weight, Pattern(n, m)), decay)
    assert torch.equal(run, weight * mask)
    run.backward(upstream)
    with torch.no_grad():
        ours -= 0.1 * ours.grad
    theirs = weight - 0.1 * (upstream + decay * (1 - mask) * weight)
    torch.testing.assert_close(ours.detach(), theirs)
