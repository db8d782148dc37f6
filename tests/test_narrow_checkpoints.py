"""Networks that lost filters, as files that say how wide every layer is."""

from pathlib import Path

import pytest
import torch
from torch import nn

import scumble
from scumble.errors import CheckpointError
from scumble.methods.phases import record_of
from scumble.nn.narrowing import narrowed
from scumble.sealed import read_sealed, write_sealed
from tests.networks import Tiny, picture

NETWORKS = {
    "edsr-x2": {"features": 16, "blocks": 1},
    "carn-x3": {"features": 16},
    "rfdn-x4": {"features": 16, "attention": 8, "blocks": 1},
}


def narrow(network, budget="1/4", size=(24, 24)):
    return scumble.finalize(scumble.sparsify(network, scumble.Filter(budget), size=size))


def small(name="edsr-x2"):
    return narrow(scumble.build(name, **NETWORKS[name]))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "network.safetensors"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_narrow_network_of_ours_comes_back_by_its_name(path, tmp_path, name):
    pruned, x = small(name), picture(40, 36)
    scumble.save(pruned, path)
    loaded = scumble.load(path)
    assert torch.equal(loaded(x), pruned(x))
    assert repr(loaded) == repr(pruned)
    assert record_of(loaded) == record_of(pruned)
    assert record_of(loaded).settings == {"budget": "1/4"}
    assert str(scumble.read_info(path).network) == name
    assert scumble.inspect(loaded, (24, 24)).cost == scumble.inspect(pruned, (24, 24)).cost
    scumble.save(loaded, tmp_path / "again.safetensors")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    dense = scumble.build(name, **NETWORKS[name])
    assert torch.equal(scumble.load(path, dense)(x), pruned(x))
    assert dense.head.out_channels == 16


def test_the_file_says_the_widths_and_is_as_small(path, tmp_path):
    dense = scumble.build("carn-x4")
    scumble.save(dense, tmp_path / "dense.safetensors")
    scumble.save(narrow(dense, "1/16"), path)
    widths = scumble.read_info(path).narrowed
    assert widths["head.weight"] == [widths["head.bias"][0], 3, 3, 3]
    assert 16 <= widths["head.weight"][0] <= 18
    assert path.stat().st_size < (tmp_path / "dense.safetensors").stat().st_size / 10


def test_half_precision_and_double_work(path):
    pruned = small()
    scumble.save(pruned, path, dtype=torch.float16)
    loaded = scumble.load(path)
    assert loaded.head.weight.dtype == torch.float32
    x = picture()
    torch.testing.assert_close(loaded(x), pruned(x), rtol=0, atol=0.01)
    scumble.save(pruned.double(), path)
    assert torch.equal(scumble.load(path).head.weight, pruned.head.weight)


def test_somebody_elses_narrow_network_is_loaded_into_the_dense_one(path):
    pruned, x = narrow(Tiny(), size=(12, 10)), picture()
    assert "odd.weight" in narrowed(pruned)
    scumble.save(pruned, path)
    template = Tiny()
    loaded = scumble.load(path, template)
    assert torch.equal(loaded(x), pruned(x))
    assert template.odd.weight.shape == Tiny().odd.weight.shape
    assert torch.equal(scumble.load(path, pruned)(x), pruned(x))
    scumble.save(loaded, path)
    assert torch.equal(scumble.load(path, Tiny())(x), pruned(x))


def test_a_narrow_network_can_be_pruned_once_more(path):
    twice = narrow(small("rfdn-x4"), "1/2")
    scumble.save(twice, path)
    assert repr(scumble.load(path)) == repr(twice)
    once = small()
    again = scumble.finalize(scumble.sparsify(once, scumble.Filter("1/2"), (24, 24), one_layer))
    scumble.save(again, path)
    assert repr(scumble.load(path)) == repr(again) != repr(once)
    method, x = scumble.OneShot("2:4"), picture(40, 36)
    both = scumble.finalize(scumble.sparsify(twice, method, (24, 24), pad_groups=True))
    scumble.save(both, path)
    assert scumble.read_info(path).network is not None
    assert torch.equal(scumble.load(path)(x), both(x))


def one_layer(name, conv):
    return name == "body.0.conv1"


def test_engines_run_a_narrow_network():
    pruned, x = small(), picture()
    with torch.no_grad():
        torch.testing.assert_close(scumble.compile(pruned)(x), pruned(x))


def test_a_narrow_network_that_was_changed_is_a_foreign_one(path):
    network = small()
    network.head = nn.Conv2d(3, network.head.out_channels, 1)
    scumble.save(network, path)
    assert scumble.read_info(path).network is None
    with pytest.raises(CheckpointError, match="holds a Edsr that scumble cannot build"):
        scumble.load(path)


def forge(path, change):
    tensors, info = read_sealed(path)
    change(tensors, info)
    write_sealed(path, tensors, info)


def put(key, shape):
    def change(tensors, info):
        info["narrowed"][key] = shape

    return change


FORGERIES = {
    "wider": (
        put("head.weight", [99, 3, 3, 3]),
        r"head.weight needs to be at most \(16, 3, 3, 3\)",
    ),
    "nothing": (put("head.weight", [0, 3, 3, 3]), r"the shape of head.weight needs to be whole"),
    "negative": (put("head.bias", [-4]), r"the shape of head.bias needs to be whole numbers"),
    "text": (put("head.bias", "8"), r"the shape of head.bias needs to be whole numbers, got '8'"),
    "truth": (put("head.bias", [True]), r"the shape of head.bias needs to be whole numbers"),
    "no shape": (put("head.bias", []), r"the shape of head.bias needs to be whole numbers"),
    "a kernel": (put("head.weight", [8, 3, 1, 1]), r"\(16, 3, 3, 3\) does not become that"),
    "dimensions": (put("head.weight", [8, 3]), r"head.weight needs to be \(8, 3\), and"),
    "no such": (put("nose.weight", [8]), r"nose.weight needs to be \(8,\), got no tensor of"),
    "another": (put("head.weight", [3, 3, 3, 3]), r"does not hold this Edsr: head.weight"),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_widths_that_make_no_sense_are_refused(path, kind):
    change, sentence = FORGERIES[kind]
    scumble.save(small(), path)
    forge(path, change)
    with pytest.raises(CheckpointError, match=sentence):
        scumble.load(path)


def fewer(key, dim):
    """Forge a file in which one tensor is narrower than its neighbours, and says so."""

    def change(tensors, info):
        tensors[key] = tensors[key].narrow(dim, 0, 2)
        info["narrowed"][key] = list(tensors[key].shape)

    return change


@pytest.mark.parametrize(
    ("key", "dim"),
    [("head.weight", 0), ("tail.weight", 1), ("body.0.conv2.weight", 0), ("head.bias", 0)],
)
def test_layers_that_do_not_fit_each_other_are_refused(path, key, dim):
    scumble.save(small(), path)
    forge(path, fewer(key, dim))
    with pytest.raises(CheckpointError, match="the widths of its layers do not fit: Edsr cannot"):
        scumble.load(path)


def test_without_its_widths_a_narrow_file_does_not_fit(path):
    scumble.save(small(), path)
    forge(path, lambda tensors, info: info.pop("narrowed"))
    with pytest.raises(CheckpointError, match=r"does not hold this Edsr: head.weight .* instead"):
        scumble.load(path)
