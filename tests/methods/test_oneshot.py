import pytest
import torch

import scumble
from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from scumble.errors import PatternError
from tests.networks import Tiny, picture


def test_every_layer_keeps_its_largest_weights():
    dense = Tiny()
    pruned = scumble.finalize(scumble.sparsify(dense, scumble.OneShot("4:16")))
    expected = dense.down.weight * largest(dense.down.weight, Pattern(4, 16))
    assert torch.equal(pruned.down.weight, expected)
    assert torch.equal(pruned.head.weight, dense.head.weight)


def test_the_mask_stays_while_the_kept_weights_train():
    sparse = scumble.sparsify(Tiny(), scumble.OneShot("4:16"))
    before = scumble.finalize(sparse).down.weight
    optimizer = torch.optim.SGD(sparse.parameters(), lr=1.0)
    for _ in range(3):
        loss = sparse(picture()).square().mean() + sparse.pruning.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.pruning.step()
    after = scumble.finalize(sparse).down.weight
    assert torch.equal(before != 0, after != 0)
    assert not torch.equal(before, after)


def test_it_is_done_from_the_start():
    pruning = scumble.sparsify(Tiny(), scumble.OneShot("4:16")).pruning
    assert pruning.reached
    assert pruning.kept == pruning.target == 0.25
    assert pruning.penalty() == 0


def test_it_takes_a_pattern_or_its_spelling():
    assert scumble.OneShot(Pattern(8, 32)) == scumble.OneShot("8:32")
    with pytest.raises(PatternError, match="a pattern is written N:M"):
        scumble.OneShot("half")
