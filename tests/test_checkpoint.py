from pathlib import Path

import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import nn

import scumble
from scumble.checkpoint_info import CheckpointInfo
from scumble.errors import CheckpointError, NetworkError, PatternError
from scumble.methods.phases import record_of
from scumble.nn.gate_table import first
from scumble.nn.surgery import mark, pattern_of, patterns
from tests.networks import Tiny, picture


def small(pattern="2:16"):
    network = scumble.build("edsr-x2", features=16, blocks=1)
    return scumble.finalize(scumble.sparsify(network, scumble.OneShot(pattern), size=(8, 8)))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "network.safetensors"


def assert_same_state(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in ours.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[key]), key


def test_a_pruned_network_comes_back_whole(path):
    pruned = small()
    scumble.save(pruned, path)
    loaded, x = scumble.load(path), picture()
    assert_same_state(loaded, pruned)
    assert torch.equal(loaded(x), pruned(x))
    assert patterns(loaded) == patterns(pruned)
    assert record_of(loaded) == record_of(pruned)
    assert not loaded.state_dict().keys() - pruned.state_dict().keys()


def test_a_search_with_mixed_patterns_comes_back_whole(path):
    network = scumble.build("rfdn-x3", features=16, attention=8, blocks=1)
    sparse = scumble.sparsify(network, scumble.SLS(m=8), size=(20, 20))
    count = len(sparse.pruning.layers)
    sparse.pruning.table.freeze_(first([1 + i % 8 for i in range(count)], 8))
    pruned = scumble.finalize(sparse)
    scumble.save(pruned, path)
    assert_same_state(scumble.load(path), pruned)
    info = scumble.read_info(path)
    assert len(info.pruned_by.scores) == count
    assert info.pruned_by.settings["budget"] == "1/2"


def test_a_file_says_what_it_is(path):
    said = {"recipe": {"train": {"steps": 3}}, "data": "five photos", "licence": "CC0-1.0"}
    scumble.save(small(), path, **said, results={"sr-y-x2": {"Set5": 37.8}})
    info = scumble.read_info(path)
    assert str(info.network) == "edsr-x2"
    assert info.network.arguments == {"scale": 2, "features": 16, "blocks": 1}
    assert str(info.patterns["body.0.conv1"]) == "2:16"
    assert (info.recipe, info.data, info.licence) == tuple(said.values())
    assert info.results == {"sr-y-x2": {"Set5": 37.8}}
    assert info.package == scumble.__version__


def test_saving_is_repeatable_byte_for_byte(path, tmp_path):
    network = small()
    scumble.save(network, path)
    scumble.save(network, tmp_path / "again.safetensors")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_a_network_of_one_sixteenth_takes_less_than_a_fifth(path, tmp_path):
    network = scumble.build("carn-x4")
    scumble.save(network, tmp_path / "dense.safetensors")
    scumble.save(scumble.finalize(scumble.sparsify(network, scumble.OneShot("2:32"))), path)
    assert path.stat().st_size < (tmp_path / "dense.safetensors").stat().st_size / 5


def test_half_precision_halves_the_file_and_loads_as_float(path):
    scumble.save(small(), path)
    full = path.stat().st_size
    scumble.save(small(), path, dtype=torch.float16)
    assert path.stat().st_size < 0.75 * full
    assert {p.dtype for p in scumble.load(path).parameters()} == {torch.float32}


def test_somebody_elses_network_is_loaded_into_itself(path):
    pruned = scumble.finalize(scumble.sparsify(Tiny(), scumble.OneShot("4:16"), size=(8, 8)))
    scumble.save(pruned, path)
    with pytest.raises(
        CheckpointError, match="holds a Tiny that scumble cannot build; say which network"
    ):
        scumble.load(path)
    template = Tiny()
    before = template.down.weight.clone()
    assert_same_state(scumble.load(path, template), pruned)
    assert torch.equal(template.down.weight, before)


def test_state_dicts_of_others_are_read(tmp_path):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    nested = tmp_path / "trained.pth"
    torch.save({"params": network.state_dict(), "step": 3}, nested)
    assert_same_state(scumble.load(nested, network), network)
    plain = tmp_path / "plain.safetensors"
    safetensors.torch.save_file(network.state_dict(), plain)
    assert_same_state(scumble.load(plain, network), network)
    with pytest.raises(CheckpointError) as refused:
        scumble.load(plain)
    assert str(refused.value) == (
        f"{plain} holds a state dict; say which network it belongs to "
        f"(--network, or network in Python)"
    )
    with pytest.raises(CheckpointError) as refused:
        scumble.read_info(plain)
    assert str(refused.value) == (
        f"{plain} was not written by scumble and does not say which network it holds; name it "
        f"(--network, or network in Python)"
    )


def test_a_checkpoint_of_another_network_says_how_it_differs(path):
    scumble.save(scumble.build("edsr-x2", blocks=1, features=8), path)
    with pytest.raises(CheckpointError) as refused:
        scumble.load(path, scumble.build("edsr-x3", blocks=2, features=8))
    assert str(refused.value) == (
        f"{path} does not hold this Edsr: body.1.conv1.weight, body.1.conv1.bias, "
        "body.1.conv2.weight and 3 more missing; body.1.bias, body.1.weight unexpected; "
        "up.0.weight (32, 8, 3, 3) instead of (72, 8, 3, 3), up.0.bias (32,) instead of (72,) "
        "of another shape"
    )


def test_an_unfinished_pruning_is_not_saved(path):
    sparse = scumble.sparsify(Tiny(), scumble.SLS(m=16), size=(8, 8))
    with pytest.raises(NetworkError, match="still being pruned; finalize it first"):
        scumble.save(sparse, path)
    assert not path.exists()


def test_weights_that_left_their_pattern_are_not_saved(path):
    pruned = small()
    with torch.no_grad():
        pruned.body[0].conv1.weight.fill_(1.0)
    with pytest.raises(PatternError, match="layer body.0.conv1: packing 2:16 needs at most 2"):
        scumble.save(pruned, path)
    assert not path.exists()


def test_paths_that_hold_no_checkpoint_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("scumble.zoo.names", list)
    cases = {
        tmp_path: "is a folder, a checkpoint is a file",
        tmp_path / "none.safetensors": "there is no file",
        tmp_path / "none.pth": "there is no file",
        Path("carn-x4"): "no trained weights of carn-x4 in the zoo; train it: scumble train",
    }
    for given_path, sentence in cases.items():
        with pytest.raises(CheckpointError, match=sentence):
            scumble.load(given_path)
    for name in ("carn-x4.safetensors", "carn-x4.pth", "somewhere/carn-x4", "mine"):
        with pytest.raises(CheckpointError, match=f"there is no file {name}"):
            scumble.load(name, "carn-x4")


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="could not be written: No such file or directory"):
        scumble.save(small(), tmp_path / "missing" / "network.safetensors")


def test_info_survives_json():
    pruned = small()
    info = CheckpointInfo("Edsr", patterns=patterns(pruned), pruned_by=record_of(pruned))
    assert CheckpointInfo.from_json(info.to_json()) == info


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_network_comes_back_in_its_own_type(path, dtype):
    pruned = small().to(dtype)
    scumble.save(pruned, path)
    loaded = scumble.load(path)
    assert_same_state(loaded, pruned)
    types = {tensor.dtype for tensor in (*loaded.parameters(), *loaded.buffers())}
    assert types == {dtype}  # the mean colour, which is not in the file, too


def test_a_network_of_mixed_types_comes_back_so(path):
    network = Tiny()
    network.wide.double()
    network.up.bfloat16()
    scumble.save(network, path)
    assert_same_state(scumble.load(path, Tiny()), network)


def test_wider_and_narrower_types_on_request(path):
    network = small()
    scumble.save(network, path, dtype=torch.float64)
    assert_same_state(scumble.load(path), network.double())
    for half in (torch.float16, torch.bfloat16):
        scumble.save(network, path, dtype=half)
        assert {p.dtype for p in scumble.load(path).parameters()} == {torch.float32}
        scumble.save(small().to(half), path, dtype=half)
        assert {p.dtype for p in scumble.load(path).parameters()} == {half}


@pytest.mark.parametrize(
    "dtype", ["float16", torch.int8, torch.float8_e4m3fn, torch.complex64, torch.bool]
)
def test_weights_are_stored_as_ordinary_floats_only(path, dtype):
    with pytest.raises(CheckpointError, match="are stored as one of torch.float16, .*, got .*"):
        scumble.save(small(), path, dtype=dtype)
    assert not path.exists()


def test_weights_too_large_for_a_type_are_named(path):
    network = small()
    with torch.no_grad():
        network.head.weight[0, 0, 0, 0] = 1e6
    with pytest.raises(
        NetworkError, match="^head.weight holds weights beyond 65504, the largest f"
    ):
        scumble.save(network, path, dtype=torch.float16)
    assert not path.exists()
    scumble.save(network, path, dtype=torch.bfloat16)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_not_saved(path, value):
    network = small()
    with torch.no_grad():
        network.body[0].conv1.bias[3] = value
    with pytest.raises(NetworkError, match="finite weights, got others in body.0.conv1.bias"):
        scumble.save(network, path)
    assert not path.exists()


def test_double_weights_beyond_single_precision_are_finite(path):
    network = small().double()
    with torch.no_grad():
        network.head.weight[0, 0, 0, 0] = 1e300
    scumble.save(network, path)
    assert scumble.load(path).head.weight[0, 0, 0, 0] == 1e300


@pytest.mark.parametrize("name", ["a.pth", "a", "a.onnx", "a.safetensors.gz"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(CheckpointError, match=f"{name} needs to end in .safetensors"):
        scumble.save(small(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def widen(network):
    network.head = nn.Conv2d(3, 16, 5, padding=2)


def soften(network):
    network.body[0].relu = nn.LeakyReLU()


def extend(network):
    network.register_buffer("count", torch.zeros(1))


def share(network):
    network.body[0].conv2.weight = network.body[0].conv1.weight


@pytest.mark.parametrize("change", [widen, soften, extend, share])
def test_a_network_that_was_changed_is_saved_as_a_foreign_one(path, change):
    network = small()
    change(network)
    scumble.save(network, path)
    assert scumble.read_info(path).network is None
    assert scumble.read_info(path).class_name == "Edsr"
    with pytest.raises(CheckpointError, match="holds a Edsr that scumble cannot build; say which"):
        scumble.load(path)
    assert_same_state(scumble.load(path, network), network)


def test_tied_weights_that_are_both_packed_load_back_tied(path):
    network = small()
    share(network)
    scumble.save(network, path)
    assert {"body.0.conv1", "body.0.conv2"} <= scumble.read_info(path).patterns.keys()
    for template in (network, network.double()):
        loaded = scumble.load(path, template)
        assert loaded.body[0].conv1.weight is loaded.body[0].conv2.weight


def test_a_bare_convolution_can_be_saved(path):
    conv = small().body[0].conv1
    scumble.save(conv, path)
    loaded = scumble.load(path, nn.Conv2d(16, 16, 3))
    assert torch.equal(loaded.weight, conv.weight)
    assert str(pattern_of(loaded)) == "2:16"


def test_what_a_template_was_pruned_to_is_forgotten(path):
    dense = scumble.build("edsr-x2", features=16, blocks=1)
    scumble.save(dense, path)
    loaded = scumble.load(path, small())
    assert not patterns(loaded)
    assert record_of(loaded) is None


class Sorting(nn.Module):
    """Somebody's network with a part that happens to be called pruning."""

    def __init__(self, state):
        super().__init__()
        self.pruning = nn.Conv2d(3, 3, 1)
        self.state = state

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state


def test_a_part_that_is_merely_called_pruning_is_saved(path):
    network = Sorting(torch.ones(2))
    scumble.save(network, path)
    assert torch.equal(scumble.load(path, network).pruning.weight, network.pruning.weight)


def test_a_pruning_deep_inside_is_found(path):
    sparse = scumble.sparsify(Tiny(), scumble.SLS(m=16), size=(8, 8))
    with pytest.raises(NetworkError, match="still being pruned; finalize it first"):
        scumble.save(nn.Sequential(sparse), path)


def test_state_that_is_no_tensor_is_refused(path):
    with pytest.raises(
        NetworkError, match="tensors only, got _extra_state of this Sorting, which "
    ):
        scumble.save(Sorting({"order": "up"}), path)
    scumble.save(Sorting(torch.ones(2)), path)
    with pytest.raises(NetworkError, match="which is a dict; register it as a buffer"):
        scumble.load(path, Sorting({"order": "up"}))


def test_networks_without_memory_are_refused(path):
    with torch.device("meta"):
        empty = Tiny()
    with pytest.raises(NetworkError, match="got a tensor without memory at head.weight"):
        scumble.save(empty, path)
    scumble.save(Tiny(), path)
    with pytest.raises(NetworkError, match="got a tensor without memory at head.weight"):
        scumble.load(path, empty)


def test_patterns_on_other_layers_are_not_saved(path):
    network = Tiny()
    mark(network.up, scumble.Pattern(2, 16))
    with pytest.raises(PatternError, match="layer up: 2:16 needs an nn.Conv2d of one group, got"):
        scumble.save(network, path)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"recipe": {"folder": Path("/data")}}, "recipe needs to be .*PosixPath"),
        ({"recipe": {"steps": {1: 2}}}, "keys of text: this would come back changed"),
        ({"results": {"sizes": (1, 2)}}, "results needs to be .* come back changed"),
        ({"results": {"psnr": float("nan")}}, "results needs to be .* not JSON compliant"),
        ({"results": [1]}, "results needs to be a dict .* got a list"),
        ({"data": Path("/data")}, "data needs to be text: got a PosixPath"),
        ({"licence": 3}, "licence needs to be text: got a int"),
    ],
)
def test_what_json_cannot_hold_exactly_is_refused(path, said, reason):
    with pytest.raises(CheckpointError, match=reason) as refused:
        scumble.save(small(), path, **said)
    assert "\n" not in str(refused.value)
    assert not path.exists()


def test_any_safetensors_reader_reads_a_saved_network(path):
    pruned = small()
    scumble.save(pruned, path)
    with safe_open(path, "pt") as file:
        assert torch.equal(file.get_tensor("head.weight"), pruned.head.weight)
        packed = file.get_tensor("body.0.conv1.weight.values")
        assert packed.shape == (16, 1, 2, 3, 3)
        assert file.get_tensor("body.0.conv1.weight.slots").shape == packed.shape
