import errno
import json

import pytest
import safetensors
import safetensors.torch
import torch

import scumble
import scumble.exports.formats as formats
import scumble.exports.writing as writing
from scumble.errors import ExportError, NetworkError, PatternError, UnknownNameError
from tests.foreign import Rlfn
from tests.networks import Tiny


@pytest.fixture(name="network")
def small_network():
    network = scumble.build("edsr-x2", features=32, blocks=1)
    return scumble.finalize(scumble.sparsify(network, scumble.OneShot("3:32")))


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_torch_weights_fit_the_plain_network_exactly(network, tmp_path):
    path = tmp_path / "network.pth"
    done = scumble.export(network, path, verify=True)
    state = torch.load(path, weights_only=True)
    assert same(state, network.state_dict())
    assert type(state) is dict
    scumble.build("edsr-x2", features=32, blocks=1).load_state_dict(state, strict=True)
    assert (done.format, done.comparison.difference) == ("torch", 0)
    assert (state["body.0.conv1.weight"] != 0).sum() == 32 * 3 * 9


def test_the_weights_of_others_keep_their_keys(data, tmp_path):
    path = tmp_path / "network.pt"
    scumble.export(scumble.load(data / "weights" / "rlfn_x4.pth", Rlfn()), path)
    theirs = torch.load(data / "weights" / "rlfn_x4.pth", map_location="cpu", weights_only=True)
    state = torch.load(path, weights_only=True)
    assert same(state, dict(theirs))
    Rlfn().load_state_dict(state, strict=True)


def test_safetensors_are_plain_and_say_what_they_are(network, tmp_path):
    path = tmp_path / "network.safetensors"
    done = scumble.export(network, path, licence="MIT", verify=True)
    assert same(safetensors.torch.load_file(path), network.state_dict())
    with safetensors.safe_open(path, "pt") as file:
        told = file.metadata()
    assert json.loads(told.pop("patterns")) == dict.fromkeys(done.facts.patterns, "3:32")
    assert told == {
        "format": "pt",
        "network": "edsr-x2,features=32,blocks=1",
        "pattern": "3:32",
        "package": f"scumble {scumble.__version__}",
        "licence": "MIT",
    }
    again = scumble.load(path, scumble.build("edsr-x2", features=32, blocks=1))
    assert same(again.state_dict(), network.state_dict())


@pytest.mark.parametrize("name", ["network.pth", "network.safetensors"])
def test_the_same_network_makes_the_same_bytes(name, network, tmp_path):
    paths = [tmp_path / folder / name for folder in ("a", "b", "c", "d")]
    for path in paths:
        path.parent.mkdir()
        scumble.export(network, path)
    assert len({path.read_bytes() for path in paths}) == 1


def test_tied_and_strided_weights_come_out_whole(tmp_path):
    tiny = Tiny()
    tiny.odd.weight.data = tiny.odd.weight.data.to(memory_format=torch.channels_last)
    for name in ("network.pth", "network.safetensors"):
        scumble.export(tiny, tmp_path / name, verify=True)
    state = torch.load(tmp_path / "network.pth", weights_only=True)
    assert same(state, dict(tiny.state_dict()))
    assert state["odd.weight"].is_contiguous()


@pytest.mark.parametrize(
    ("name", "wanted", "error", "sentence"),
    [
        (
            "a.onnx",
            "onx",
            UnknownNameError,
            "no format named 'onx'. Did you mean 'onnx'? Known: onnx, safetensors, torch.",
        ),
        (
            "a.pth",
            "onnx",
            ExportError,
            "{path} needs to end in .onnx to hold format onnx; name it so, or choose another "
            "format",
        ),
        (
            "a",
            "torch",
            ExportError,
            "{path} needs to end in .pth or .pt to hold format torch; name it so, or choose "
            "another format",
        ),
        (
            "a.tflite",
            None,
            ExportError,
            "{path} needs to end in .onnx, .safetensors, .pth or .pt; name it so",
        ),
        (
            "no/a.pth",
            None,
            ExportError,
            "{path} needs a folder to be in, there is no {folder}; make it",
        ),
    ],
)
def test_paths_and_formats_that_do_not_fit_are_refused(
    name, wanted, error, sentence, network, tmp_path
):
    path = tmp_path / name
    with pytest.raises(error) as refused:
        scumble.export(network, path, format=wanted)
    assert str(refused.value) == sentence.format(path=path, folder=path.parent)
    assert not list(tmp_path.iterdir())


def refused_for(network, path) -> str:
    with pytest.raises(ExportError) as refused:
        scumble.export(network, path)
    return str(refused.value)


def test_what_cannot_be_written_is_refused(network, tmp_path, monkeypatch):
    path = tmp_path / "network.pth"
    path.mkdir()
    assert refused_for(network, path) == (
        f"{path} needs to be a file, there is a folder of that name"
    )
    path.rmdir()
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        assert refused_for(network, path) == (
            f"{path} could not be written: {tmp_path} may not be changed"
        )

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "atomic_write", full)
    assert refused_for(network, path) == f"{path} could not be written: No space left on device"


def test_a_missing_library_is_refused_with_the_way_to_get_it(network, tmp_path, monkeypatch):
    path = tmp_path / "network.onnx"
    monkeypatch.setattr(formats, "find_spec", lambda name: name != "onnxscript" or None)
    assert refused_for(network, path) == (
        "exporting to onnx needs onnxscript, which is not installed; pip install scumble[export]"
    )
    monkeypatch.setattr(formats, "find_spec", lambda name: name != "onnxruntime" or None)
    with pytest.raises(ExportError) as refused:
        scumble.export(network, path, verify=True)
    assert str(refused.value) == (
        "verifying onnx needs onnxruntime, which is not installed; pip install scumble[export]"
    )
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    scumble.export(network, tmp_path / "network.pth", verify=True)


def test_networks_that_are_not_finished_are_refused(network, tmp_path):
    path = tmp_path / "network.pth"
    sparse = scumble.sparsify(scumble.build("edsr-x2", blocks=1), scumble.OneShot("3:32"))
    assert refused_for(sparse, path) == (
        "exporting needs a plain network, got one that is still being pruned; finalize it first"
    )
    network.body[0].conv1.weight.data[0] = 1
    with pytest.raises(PatternError, match="^layer body.0.conv1: packing 3:32 needs at most 3"):
        scumble.export(network, path)
    network.tail.bias.data[0] = torch.nan
    assert refused_for(network, path) == ("exporting needs finite weights, got others in tail.bias")
    with pytest.raises(NetworkError, match="got a tensor without memory at head.weight"):
        scumble.export(network.to("meta"), path)
    assert not list(tmp_path.iterdir())
