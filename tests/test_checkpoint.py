import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scumble
from scumble.checkpoint_info import CheckpointInfo
from scumble.errors import CheckpointError, NetworkError, PatternError
from scumble.methods.phases import record_of
from scumble.nn.surgery import patterns
from scumble.sealed import read_sealed, write_sealed
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
    sparse.pruning.table.freeze_([1 + i % 8 for i in range(count)])
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
    with pytest.raises(CheckpointError, match="holds a Tiny, which is not ours; say which network"):
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
    with pytest.raises(
        CheckpointError, match="holds a state dict; say which network it belongs to"
    ):
        scumble.load(plain)
    with pytest.raises(CheckpointError, match="not written by scumble"):
        scumble.read_info(plain)


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


# Files that were damaged.

FILE = None


def content() -> bytes:
    global FILE
    if FILE is None:
        folder = Path(os.environ.get("TMPDIR", "/tmp"))
        path = folder / f"scumble-test-{os.getpid()}.safetensors"
        torch.manual_seed(0)
        scumble.save(small(), path)
        FILE = path.read_bytes()
        path.unlink()
    return FILE


many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(path, share):
    path.write_bytes(content()[: int(share * len(content()))])
    with pytest.raises(CheckpointError):
        scumble.load(path)


@many
@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_file_with_one_byte_changed_is_refused(path, share, change):
    changed = bytearray(content())
    changed[int(share * len(changed))] ^= change
    path.write_bytes(changed)
    with pytest.raises(CheckpointError):
        scumble.load(path)


def test_every_byte_of_the_header_matters(path):
    length = 8 + int.from_bytes(content()[:8], "little")
    for place in range(0, length, 7):
        changed = bytearray(content())
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            scumble.load(path)


def resealed(path, change) -> None:
    """Write a file whose seal is right and whose content was changed by an expert."""
    path.write_bytes(content())
    tensors, info = read_sealed(path)
    change(tensors, info)
    write_sealed(path, tensors, info)


LAYER = "body.0.conv1"
SLOTS, VALUES = f"{LAYER}.weight.slots", f"{LAYER}.weight.values"


def too_far(tensors, info):
    tensors[SLOTS][0, 0, 1, 0, 0] = 16


def twice(tensors, info):
    tensors[SLOTS][0, 0, :, 0, 0] = 3


def other_pattern(tensors, info):
    info["patterns"][LAYER] = "3:16"


def no_slots(tensors, info):
    del tensors[SLOTS]


def other_outputs(tensors, info):
    tensors[VALUES], tensors[SLOTS] = tensors[VALUES][:3], tensors[SLOTS][:3]


def no_such_layer(tensors, info):
    info["patterns"] = {"tail.9": "2:16"}
    tensors["tail.9.weight.values"] = tensors.pop(VALUES)
    tensors["tail.9.weight.slots"] = tensors.pop(SLOTS)


def giant(tensors, info):
    info["network"]["arguments"]["features"] = 10**9


def deep(tensors, info):
    info["network"]["arguments"]["blocks"] = 1000


def from_the_future(tensors, info):
    info["format"] = 2


def without_patterns(tensors, info):
    del info["patterns"]


def stranger(tensors, info):
    info["network"]["name"] = "resnet"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (too_far, "layer body.0.conv1: slots of 2:16 need to be below 16, got 16"),
        (twice, "layer body.0.conv1: slots need to rise inside a group, got one twice"),
        (other_pattern, "layer body.0.conv1: 16 channels packed 3:16 need values of shape"),
        (no_slots, "layer body.0.conv1 is 2:16, but is not stored packed"),
        (other_outputs, "layer body.0.conv1 needs 16 outputs and a 3x3 kernel"),
        (no_such_layer, "layer tail.9 is 2:16, but no such convolution"),
        (giant, "its description makes no sense: edsr: features needs to be 1 to 1024"),
        (deep, "layer body.1 is 2:16, but no such convolution"),
        (from_the_future, r"format 2 is not one that scumble .* reads \(1\)"),
        (without_patterns, "its description makes no sense: 'patterns'"),
        (stranger, "its description makes no sense: no network named 'resnet'"),
    ],
)
def test_a_tampered_file_is_refused_in_one_sentence(path, change, sentence):
    resealed(path, change)
    with pytest.raises(CheckpointError, match=sentence) as refused:
        scumble.load(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


class Bomb:
    """A pickle that would run a command when it is read."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_a_pickle_with_code_is_refused_and_never_run(tmp_path, ending):
    mark, file = tmp_path / "ran", tmp_path / f"bomb{ending}"
    file.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(CheckpointError):
        scumble.load(file, "carn-x4")
    archive = tmp_path / "archive.pth"
    torch.save({"weights": Bomb(mark)}, archive)
    with pytest.raises(
        CheckpointError, match="holds more than tensors.* nothing of it was executed"
    ):
        scumble.load(archive, "carn-x4")
    assert not mark.exists()


def test_paths_that_hold_no_checkpoint_are_refused(tmp_path):
    cases = {
        tmp_path: "is a folder, a checkpoint is a file",
        tmp_path / "none.safetensors": "there is no file",
        tmp_path / "none.pth": "there is no file",
        Path("carn-x4"): r"no trained weights named carn-x4; scumble.build\('carn-x4'\) makes",
    }
    for given_path, sentence in cases.items():
        with pytest.raises(CheckpointError, match=sentence):
            scumble.load(given_path)
    (tmp_path / "text.pth").write_text("hello")
    (tmp_path / "list.pth").write_bytes(b"")
    torch.save([1, 2], tmp_path / "list2.pth")
    for name in ("text.pth", "list.pth", "list2.pth"):
        with pytest.raises(CheckpointError):
            scumble.load(tmp_path / name, "carn-x4")


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="could not be written: No such file or directory"):
        scumble.save(small(), tmp_path / "missing" / "network.safetensors")


def test_info_survives_json():
    pruned = small()
    info = CheckpointInfo("Edsr", patterns=patterns(pruned), pruned_by=record_of(pruned))
    assert CheckpointInfo.from_json(info.to_json()) == info
