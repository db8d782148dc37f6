import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scumble
from scumble.errors import CheckpointError
from scumble.models import NetworkSpec
from scumble.sealed import read_sealed, write_sealed
from tests.networks import Tiny
from tests.test_checkpoint import small


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "network.safetensors"


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


def falling(tensors, info):
    tensors[SLOTS][0, 0, :, 0, 0] = torch.tensor([5, 2])


def four_dimensions(tensors, info):
    tensors[VALUES] = tensors[VALUES].flatten(3)


def other_kernel(tensors, info):
    tensors[VALUES], tensors[SLOTS] = tensors[VALUES][..., :1], tensors[SLOTS][..., :1]


def infinite(tensors, info):
    tensors[VALUES][0, 0, 0, 0, 0] = float("inf")


def no_number(tensors, info):
    tensors["head.bias"][1] = float("nan")


def tiny_floats(tensors, info):
    tensors[VALUES] = tensors[VALUES].to(torch.float8_e4m3fn)


def tiny_dense_floats(tensors, info):
    tensors["head.weight"] = tensors["head.weight"].to(torch.float8_e5m2)


def whole_values(tensors, info):
    tensors[VALUES] = tensors[VALUES].long()


def truth_values(tensors, info):
    tensors[VALUES] = tensors[VALUES].bool()


def whole_weights(tensors, info):
    tensors["head.weight"] = tensors["head.weight"].long()


def complex_weights(tensors, info):
    tensors["head.weight"] = tensors["head.weight"].to(torch.complex64)


def no_convolution(tensors, info):
    info["patterns"]["up.1"] = "2:16"
    tensors["up.1.weight.values"], tensors["up.1.weight.slots"] = tensors[VALUES], tensors[SLOTS]


def strange_keys(tensors, info):
    tensors["a\nb\x1b[2J"] = torch.zeros(1)


def two_scales(tensors, info):
    info["network"]["name"] = "edsr-x3"


def giant_scale(tensors, info):
    info["network"] = {"name": "rfdn", "arguments": {"scale": 1024}}


def name_inside(tensors, info):
    info["network"]["arguments"]["name"] = "carn"


def put(**values):
    """Return a change of the description."""

    def change(tensors, info):
        info.update(values)

    change.__name__ = ", ".join(f"{key}={value!r:.30}" for key, value in values.items())
    return change


def record(**values):
    return put(pruned_by={"method": "sls", "settings": {}, "scores": {}} | values)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (too_far, "layer body.0.conv1: slots of 2:16 need to be below 16, got 16"),
        (twice, "layer body.0.conv1: slots need to rise inside a group, got one twice"),
        (other_pattern, "layer body.0.conv1: 16 channels packed 3:16 need values of shape"),
        (no_slots, "layer body.0.conv1 is 2:16, but is not stored packed"),
        (other_outputs, "layer body.0.conv1: the network has 16 outputs and a 3x3 kernel"),
        (no_such_layer, "layer tail.9: 2:16 needs a convolution, got no layer of that name"),
        (giant, "its description makes no sense: edsr: features needs to be 1 to 1024"),
        (deep, "layer body.1: 2:16 needs an nn.Conv2d of one group, got a ResidualBlock"),
        (from_the_future, r"format 2 is not one that scumble .* reads \(1\)"),
        (without_patterns, "its description makes no sense: 'patterns' is missing"),
        (stranger, "its description makes no sense: no network named 'resnet'"),
        (falling, "layer body.0.conv1: slots need to rise inside a group"),
        (four_dimensions, r"3x3 kernel, got values of shape \(16, 1, 2, 9\)"),
        (other_kernel, r"3x3 kernel, got values of shape \(16, 1, 2, 3, 1\)"),
        (infinite, "body.0.conv1.weight needs finite numbers, got others"),
        (no_number, "head.bias needs finite numbers, got others"),
        (tiny_floats, "layer body.0.conv1: values need to be floating-point .* got float8_e4m3fn"),
        (tiny_dense_floats, "head.weight float8_e5m2 instead of float32 of another type"),
        (whole_values, "layer body.0.conv1: values need to be floating-point .* got int64"),
        (truth_values, "layer body.0.conv1: values need to be floating-point .* got bool"),
        (whole_weights, "head.weight int64 instead of float32 of another type"),
        (complex_weights, "head.weight complex64 instead of float32 of another type"),
        (no_convolution, "layer up.1: 2:16 needs an nn.Conv2d of one group, got a PixelShuffle"),
        (strange_keys, r"does not hold this Edsr: a\?b\?\[2J unexpected"),
        (two_scales, "its description makes no sense: no network named 'edsr-x3'"),
        (giant_scale, "its network cannot be built: a scale is 2, 3 or 4, got 1024"),
        (name_inside, "its description makes no sense: no network has an argument 'name'"),
        (put(class_name=3), "'class_name' needs to be str, got int"),
        (put(package=None), "'package' needs to be str, got NoneType"),
        (put(recipe=[1]), "'recipe' needs to be dict or NoneType, got list"),
        (put(results="good"), "'results' needs to be dict or NoneType, got str"),
        (put(data={}), "'data' needs to be str or NoneType, got dict"),
        (put(patterns=["2:16"]), "'patterns' needs to be dict, got list"),
        (put(patterns={LAYER: 2}), "the pattern of body.0.conv1 needs to be str, got 2"),
        (put(patterns={LAYER: "2"}), "a pattern is written N:M, such as 8:32, got '2'"),
        (put(network="edsr-x2"), "'network' needs to be dict or NoneType, got str"),
        (put(network={"name": "edsr"}), "'arguments' is missing"),
        (put(network={"name": ["edsr"], "arguments": {}}), "'name' needs to be str, got list"),
        (put(network={"name": f"edsr-x{'9' * 5000}", "arguments": {}}), "no network named"),
        (put(rounded_to="float8"), "nothing is rounded to 'float8'"),
        (put(colour="red"), "'colour' is not known"),
        (put(pruned_by="sls"), "'pruned_by' needs to be dict or NoneType, got str"),
        (put(pruned_by={"method": "sls"}), "'scores' is missing"),
        (record(method=1), "'method' needs to be str, got int"),
        (record(settings=[]), "'settings' needs to be dict, got list"),
        (record(settings={"m": [1]}), "setting 'm' needs to be plain, got list"),
        (record(scores={LAYER: 1.0}), "the scores of body.0.conv1 need to be a list of numbers"),
        (record(scores={LAYER: ["a"]}), "the scores of body.0.conv1 need to be a list of num"),
    ],
)
def test_a_lying_file_is_refused_in_one_sentence(path, change, sentence):
    resealed(path, change)
    with pytest.raises(CheckpointError, match=sentence) as refused:
        scumble.load(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


class Others(torch.nn.Module):
    """A network with every kind of layer that follows no pattern."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.ConvTranspose2d(16, 16, 3)
        self.grouped = torch.nn.Conv2d(32, 16, 3, groups=2)


@pytest.mark.parametrize("name", ["up", "grouped"])
def test_no_pattern_is_believed_of_other_layers(path, name):
    scumble.save(Others(), path)
    tensors, info = read_sealed(path)
    assert info is not None
    del tensors[f"{name}.weight"]
    tensors[f"{name}.weight.values"] = torch.ones(16, 1, 2, 3, 3)
    slots = torch.zeros(16, 1, 2, 3, 3, dtype=torch.uint8)
    slots[:, :, 1] = 1
    tensors[f"{name}.weight.slots"] = slots
    info["patterns"] = {name: "2:16"}
    write_sealed(path, tensors, info)
    with pytest.raises(CheckpointError, match=f"layer {name}: 2:16 needs an nn.Conv2d of one gr"):
        scumble.load(path, Others())


def test_tied_weights_with_two_values_are_refused(path):
    network = Tiny()
    scumble.save(network, path)
    tensors, info = read_sealed(path)
    assert info is not None
    tensors["again.weight"] += 1
    write_sealed(path, tensors, info)
    with pytest.raises(CheckpointError, match="shared.weight and again.weight are one weight, got"):
        scumble.load(path, network)


def test_the_network_that_a_file_names_takes_no_memory_before_it_fits(path, monkeypatch):
    resealed(path, lambda _, info: info["network"]["arguments"].update(features=1024))
    places = []
    build = NetworkSpec.build

    def watched(spec):
        places.append(torch.empty(0).device.type)
        return build(spec)

    monkeypatch.setattr(NetworkSpec, "build", watched)
    with pytest.raises(CheckpointError, match="the network has 1024 outputs"):
        scumble.load(path)
    assert places == ["meta"]
    path.write_bytes(content())
    scumble.load(path)
    assert places == ["meta", "meta", "cpu"]


def test_a_description_that_is_no_object_is_refused_with_the_file_s_name(path):
    path.write_bytes(content())
    tensors, _ = read_sealed(path)
    write_sealed(path, tensors, ["edsr-x2"])  # pyright: ignore[reportArgumentType]
    for read in (scumble.load, scumble.read_info):
        with pytest.raises(CheckpointError) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path}: its description needs to be a JSON object")
