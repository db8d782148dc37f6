import pytest
import torch

import scumble
from scumble.errors import PatternError
from tests.networks import Tiny


def test_the_table_shows_every_layer_and_both_totals():
    text = str(scumble.inspect(scumble.build("carn-x4"), (180, 320)))
    assert text.startswith("carn-x4 on 320x180\n")
    assert (
        "body.stages.2.fusions.2.conv  conv  64x256x1x1  dense     0.9437   1.0%      16,448"
        in text
    )
    assert "90.8734 GMACs  conv " in text
    assert "91.2154 GMACs  paper " in text
    assert "paper*" not in text
    assert "1,111,875  parameters" in text


def test_a_pattern_counts_as_if_pruned():
    dense, pruned = (scumble.inspect(Tiny(), (12, 10), p).cost for p in (None, "4:16"))
    saved = sum(
        before.macs - after.macs
        for before, after in zip(dense.layers, pruned.layers, strict=True)
        if after.pattern
    )
    assert dense.conv_macs - pruned.conv_macs == saved > 0
    assert "paper*" in str(scumble.inspect(Tiny(), (12, 10), "4:16"))


def test_what_is_inspected_is_what_a_method_would_prune():
    network = Tiny()
    foretold = scumble.inspect(network, (12, 10), "4:16", pad_groups=True).cost
    pruned = scumble.finalize(scumble.sparsify(network, scumble.OneShot("4:16"), pad_groups=True))
    assert scumble.inspect(pruned, (12, 10)).cost == foretold


def test_json_holds_the_numbers_of_the_table():
    found = scumble.inspect(scumble.build("carn-x4"), (180, 320), "8:32").to_json()
    assert found["macs"]["paper"] == pytest.approx(24.33e9, rel=1e-3)
    assert sum(layer["macs"] for layer in found["layers"]) == found["macs"]["conv"]
    assert found["layers"][1]["pattern"] == "8:32"
    assert (found["width"], found["height"]) == (320, 180)


def test_a_pruned_network_is_not_counted_as_if_pruned_otherwise():
    sparse = scumble.sparsify(Tiny(), scumble.OneShot("4:16"))
    for network in (sparse, scumble.finalize(sparse)):
        with pytest.raises(PatternError, match="needs a dense network, got one whose layer down "):
            scumble.inspect(network, (12, 10), "2:16")


def test_weights_that_left_their_pattern_are_told():
    pruned = scumble.finalize(scumble.sparsify(Tiny(), scumble.OneShot("4:16")))
    torch.nn.init.ones_(pruned.down.weight)
    sentence = "layer down: 4:16 needs at most 4 non-zero weights in a group, got 16; prune it"
    with pytest.raises(PatternError, match=sentence):
        scumble.inspect(pruned, (12, 10))
    pruned.down.pattern = None
    assert scumble.inspect(pruned, (12, 10)).cost.layers[1].pattern is None
