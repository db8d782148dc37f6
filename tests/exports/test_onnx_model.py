import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import scumble
from scumble.bench import prune_layers
from scumble.errors import ExportError
from tests.engines.cpu.running import Does
from tests.foreign import load_rfdn_aim, load_rlfn
from tests.networks import Tiny

missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
if missing:
    pytest.skip(f"needs {missing[0]}: pip install scumble[export]", allow_module_level=True)

SMALL = {
    "edsr": {"features": 32, "blocks": 1},
    "carn": {"features": 32},
    "rfdn": {"features": 32, "attention": 8, "blocks": 1},
}


def small(name: str, scale: int = 2) -> nn.Module:
    network = scumble.build(f"{name}-x{scale}", **SMALL[name])
    for parameter in network.parameters():  # fresh ones make pictures of a single colour
        nn.init.normal_(parameter, std=1.5 * max(1, parameter[0].numel()) ** -0.5)
    return network.eval()


def session(path: Path):
    import onnxruntime

    return onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


def model_in(path: Path):
    import onnx

    return onnx.load_from_string(path.read_bytes())


@torch.no_grad()
def off_by(path: Path, network: nn.Module, *sizes: tuple[int, int, int]) -> float:
    """The largest difference in ONNX Runtime, as a share of the largest number."""
    opened = session(path)
    worst = 0.0
    for batch, height, width in sizes:
        picture = torch.rand(batch, 3, height, width)
        wanted = network(picture).numpy()
        (made,) = opened.run(["restored"], {"picture": picture.numpy()})
        assert made.shape == wanted.shape
        worst = max(worst, float(np.abs(made - wanted).max() / np.abs(wanted).max()))
    return worst


@pytest.mark.parametrize(
    ("name", "scale", "n"),
    [
        ("edsr", 2, 2), ("edsr", 3, None), ("edsr", 4, 16), ("carn", 2, None), ("carn", 3, 4),
        ("carn", 4, 1), ("rfdn", 2, 8), ("rfdn", 3, 1), ("rfdn", 4, None),
    ],
)  # fmt: skip
def test_every_network_runs_at_any_size_in_onnx_runtime(name, scale, n, tmp_path):
    path = tmp_path / "network.onnx"
    network = small(name, scale)
    if n is not None:
        network = scumble.finalize(scumble.sparsify(network, scumble.OneShot(f"{n}:32")))
    scumble.export(network, path)
    assert off_by(path, network, (1, 15, 15), (3, 16, 23), (1, 41, 30)) < 1e-5


def test_a_network_without_strides_runs_on_a_single_pixel(tmp_path):
    network = small("edsr")
    scumble.export(network, tmp_path / "network.onnx")
    assert off_by(tmp_path / "network.onnx", network, (1, 1, 1), (2, 1, 9)) < 1e-5


def test_a_model_says_what_it_is(tmp_path):
    path = tmp_path / "network.onnx"
    network = prune_layers(small("edsr"), [1, 2, 3, 4])
    done = scumble.export(network, path, licence="CC0-1.0")
    model = model_in(path)
    sides = [
        [side.dim_param or side.dim_value for side in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    ]
    assert sides == [["batch", 3, "height", "width"], ["batch", 3, "2*height", "2*width"]]
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == [
        "picture",
        "restored",
    ]
    told = {one.key: one.value for one in model.metadata_props}
    assert json.loads(told.pop("patterns")) == {
        "body.0.conv1": "1:32",
        "body.0.conv2": "2:32",
        "body.1": "3:32",
        "up.0": "4:32",
    }
    assert told == {
        "network": "edsr-x2,features=32,blocks=1",
        "pattern": "mixed",
        "package": f"scumble {scumble.__version__}",
        "licence": "CC0-1.0",
    }
    assert (model.producer_name, model.producer_version) == ("scumble", scumble.__version__)
    assert str(done).endswith("edsr-x2,features=32,blocks=1 mixed as onnx, 0.27 MB")
    assert done.bytes == path.stat().st_size


def test_weights_are_in_the_file_under_their_keys_and_folders_are_not(tmp_path):
    path = tmp_path / "network.onnx"
    network = small("rfdn")
    scumble.export(network, path)
    assert list(tmp_path.iterdir()) == [path]
    model = model_in(path)
    held = {one.name: one for one in model.graph.initializer}
    assert not any(one.external_data for one in held.values())
    assert held.keys() >= dict(network.named_parameters()).keys()
    for trace in (b"site-packages", b".py", str(Path(scumble.__file__).parent).encode()):
        assert trace not in path.read_bytes()


def test_the_same_network_makes_the_same_bytes(tmp_path):
    network = small("edsr")
    before = {key: value.clone() for key, value in network.state_dict().items()}
    for name in ("one.onnx", "two.onnx"):
        scumble.export(network.train(), tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
    assert network.training
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_a_network_in_other_numbers_is_exported_in_float32(tmp_path):
    network = small("edsr")
    scumble.export(network.double(), tmp_path / "network.onnx")
    assert off_by(tmp_path / "network.onnx", network.float(), (1, 9, 9)) < 1e-5


def test_verifying_compares_on_three_sizes(tmp_path):
    done = scumble.export(small("rfdn"), tmp_path / "network.onnx", verify=True)
    told = done.to_json()["verified"]
    assert told["sizes"] == ["31x17", "32x48", "47x33"]
    assert 0 < told["largest_difference"] < 1e-5
    assert "; largest difference " in str(done)


@pytest.mark.parametrize(("load", "file"), [(load_rfdn_aim, "RFDN_AIM"), (load_rlfn, "rlfn_x4")])
def test_networks_of_others_are_exported(load, file, data, tmp_path):
    network = load(data / "weights" / f"{file}.pth")
    done = scumble.export(network, tmp_path / "network.onnx", verify=True)
    assert done.comparison.difference < 1e-4
    assert done.to_json()["network"] == "InLevels"
    assert off_by(tmp_path / "network.onnx", network, (1, 29, 40)) < 1e-4


def test_a_network_that_cuts_pictures_into_squares_is_exported(tmp_path):
    network = Does(lambda self, x: x.view(*x.shape[:2], -1, 8, x.shape[3]).flip(3).view_as(x))
    done = scumble.export(network, tmp_path / "network.onnx", verify=True)
    assert done.to_json()["verified"]["sizes"] == ["32x48", "96x64", "192x128"]
    made = scumble.export(Tiny(), tmp_path / "tiny.onnx", verify=True)
    assert made.comparison.difference < 1e-5


def brighter(self, x):
    return 2 * x if x.shape[2] < x.shape[3] else x


def test_a_failed_comparison_leaves_what_was_there(tmp_path):
    path = tmp_path / "network.onnx"
    path.write_text("before")
    sentence = (
        "^what was exported makes another picture than the network: on 31x17 it is off by "
        r"5\.0e-01, more than 1e-04; nothing was written$"
    )
    with pytest.raises(ExportError, match=sentence):
        scumble.export(Does(brighter), path, verify=True)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        (
            lambda self, x: 2 * x if x.shape[2] > 400 else x,
            "Does cannot be written as ONNX for pictures of any size: it does something else for "
            "more than 400 pixels a side",
        ),
        (
            lambda self, x: 2 * x if x.mean() > 0.4 else x,
            "Does cannot be written as ONNX: Could not guard on data-dependent expression",
        ),
        (
            lambda self, x: x[0],
            "exporting needs a network that makes pictures [B, C, H, W] of RGB pictures, "
            "Does makes [3, 9, 7]",
        ),
        (
            lambda self, x: [x],
            "exporting needs a network that makes pictures [B, C, H, W] of RGB pictures, "
            "Does makes a list",
        ),
        (
            lambda self, x: x + torch.ones(1, 1, 48, 32),
            "exporting needs a network that runs on RGB pictures of any size, Does ran on 1 of 8 "
            "sizes: The size of tensor a (7) must match the size of tensor b (32)",
        ),
    ],
)
def test_what_a_model_cannot_hold_is_refused_in_one_sentence(does, sentence, tmp_path, capfd):
    with pytest.raises(ExportError) as refused:
        scumble.export(Does(does), tmp_path / "network.onnx")
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
