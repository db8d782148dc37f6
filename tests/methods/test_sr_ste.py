import pytest
import torch

import scumble
from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from scumble.errors import RecipeError
from tests.networks import Tiny, picture


def test_it_runs_the_largest_weights_of_now():
    sparse, x = scumble.sparsify(Tiny(), scumble.SrSte("4:16")), picture()
    before = sparse(x)
    with torch.no_grad():
        weight = sparse.down.weight
        weight.copy_(weight.flip(1) * torch.linspace(0.1, 3, 16).view(1, 16, 1, 1))
    assert not torch.equal(sparse(x), before)
    pruned = scumble.finalize(sparse)
    expected = weight * largest(weight.detach(), Pattern(4, 16))
    assert torch.equal(pruned.down.weight, expected)
    assert torch.equal(pruned(x), sparse(x))


def test_weights_change_sides_while_it_trains():
    sparse = scumble.sparsify(Tiny(), scumble.SrSte("4:16"))
    before = scumble.finalize(sparse).down.weight != 0
    optimizer = torch.optim.Adam(sparse.parameters(), lr=0.02)
    for _ in range(5):
        loss = sparse(picture()).square().mean() + sparse.pruning.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.pruning.step()
    after = scumble.finalize(sparse).down.weight != 0
    assert not torch.equal(before, after)
    assert before.sum() == after.sum()


def test_a_layer_learns_as_the_publication_says():
    """The gradient of the dense weight is that of the masked one, plus decay on what is masked."""
    sparse, x = scumble.sparsify(Tiny(), scumble.SrSte("4:16", decay=0.5)), picture()
    plain = scumble.finalize(sparse)
    sparse(x).square().sum().backward()
    plain(x).square().sum().backward()
    for name in ("down", "odd"):
        weight = sparse.get_submodule(name).weight
        masked = weight.detach() * ~largest(weight.detach(), Pattern(4, 16))
        expected = plain.get_submodule(name).weight.grad + 0.5 * masked
        torch.testing.assert_close(weight.grad, expected)
    torch.testing.assert_close(sparse.head.weight.grad, plain.head.weight.grad)


def test_without_decay_what_is_masked_still_learns():
    sparse = scumble.sparsify(Tiny(), scumble.SrSte("4:16", decay=0))
    sparse(picture()).square().sum().backward()
    assert bool((sparse.odd.weight.grad != 0).all())


def test_a_decay_that_cannot_be_is_refused():
    for decay in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RecipeError, match="SR-STE needs a finite decay of at least 0, got"):
            scumble.SrSte(decay=decay)
