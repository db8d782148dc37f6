import pytest
import torch

import scumble
from scumble.bench import case_of, prune_layers
from scumble.core.packing import most_kept
from scumble.errors import PatternError
from scumble.nn.surgery import convolutions, pattern_of, patterns


@pytest.fixture(name="network")
def small_network():
    return scumble.build("edsr-x2", features=32, blocks=1)


def test_every_layer_keeps_as_many_weights_as_it_was_told(network):
    pruned = prune_layers(network, [1, 3, 7, 32])
    assert [str(p) for p in patterns(pruned).values()] == ["1:32", "3:32", "7:32", "32:32"]
    for _, conv in convolutions(pruned):
        pattern = pattern_of(conv)
        if pattern is not None:
            assert most_kept(conv.weight, pattern.m) == pattern.n


def test_pruning_keeps_the_largest_weights_and_leaves_the_network_alone(network):
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    pruned = prune_layers(network, [2] * 4)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert not patterns(network)
    group = network.body[0].conv1.weight[5, :, 1, 2]
    left = pruned.body[0].conv1.weight[5, :, 1, 2]
    assert torch.equal(left.abs().topk(2).indices, group.abs().topk(2).indices)
    assert left.count_nonzero() == 2


def test_a_uniform_case_prunes_what_oneshot_prunes(network):
    expected = scumble.finalize(scumble.sparsify(network, scumble.OneShot("4:32")))
    found = case_of("small", network, "4:32")
    assert str(found) == "small 4:32"
    for key, value in expected.state_dict().items():
        assert torch.equal(found.module.state_dict()[key], value)


def test_layers_that_do_not_divide_and_the_painter_stay_dense():
    pruned = prune_layers(scumble.build("edsr-x2", features=32, blocks=1), [1] * 4)
    assert pattern_of(pruned.head) is None
    assert pattern_of(pruned.tail) is None


def test_without_a_pattern_a_network_is_timed_as_it_is(network):
    assert case_of("small", network).pattern == "dense"
    assert case_of("small", network, "dense").pattern == "dense"
    pruned = prune_layers(network, [2, 1, 5, 8])
    own = case_of("small", pruned)
    assert own.pattern == "own"
    assert [p.n for p in patterns(own.module).values()] == [2, 1, 5, 8]


def test_a_case_is_in_float32_and_to_evaluate(network):
    module = case_of("small", network.half()).module
    assert module.head.weight.dtype == torch.float32
    assert not module.training


def test_a_pruned_network_is_not_pruned_again(network):
    pruned = prune_layers(network, [2] * 4)
    sentence = (
        "pruning to 4:32 needs a dense network, got small, whose layer body.0.conv1 has a "
        "pattern; leave the pattern out"
    )
    with pytest.raises(PatternError, match=sentence):
        case_of("small", pruned, "4:32")


def test_a_wrong_number_of_layers_is_refused(network):
    sentence = "Edsr needs an N for each of its 4 prunable layers, got 3"
    with pytest.raises(PatternError, match=sentence):
        prune_layers(network, [1, 2, 3])
    with pytest.raises(PatternError, match="a pattern keeps 1 to 32 of 32 weights, got 33:32"):
        prune_layers(network, [1, 2, 3, 33])
