import json

import pytest
import torch
from typer.testing import CliRunner

import scumble
from scumble.cli.app import app
from tests.cli.test_command_line import run
from tests.networks import Tiny

SMALL = "edsr-x2,features=16,blocks=1"


def told_by(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["export", *arguments])
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_network_of_the_zoo_is_exported_with_its_licence(tmp_path):
    path = tmp_path / "carn.safetensors"
    told = json.loads(told_by("-n", "carn-x4", "-o", str(path), "--verify", "--json"))
    assert told == {
        "path": str(path),
        "format": "safetensors",
        "bytes": path.stat().st_size,
        "network": "carn-x4",
        "pattern": "dense",
        "package": f"scumble {scumble.__version__}",
        "licence": scumble.read_info("carn-x4").licence,
        "patterns": {},
        "verified": {
            "sizes": ["7x9", "31x17", "32x48"],
            "largest_difference": 0.0,
            "tolerance": 1e-4,
        },
    }


def test_an_exported_state_dict_of_others_is_quiet_onnx(tmp_path):
    pytest.importorskip("onnxscript", reason="pip install scumble[export]")
    path = tmp_path / "plain.pth"
    torch.save(scumble.build("edsr-x2", features=16, blocks=1).state_dict(), path)
    made = tmp_path / "plain.onnx"
    done = run("export", "-n", str(path), "--network", SMALL, "-f", "onnx", "-o", str(made))
    assert done.stdout == f"{made}: {SMALL} dense as onnx, 0.07 MB\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("model", "output", "sentence"),
    [
        ("carn-x4", "a.pt", None),
        ("plain.pth", "a.pt", "plain.pth holds a state dict; say which network it belongs to (--n"),
        ("tiny.safetensors", "a.pt", "tiny.safetensors holds a Tiny that scumble cannot build"),
        ("edsr-x4", "a.pt", "there are no trained weights of edsr-x4 in the zoo (carn-x4); train"),
        ("crn-x4", "a.pt", "there is no file crn-x4, and no network of that name in the zoo (car"),
        ("none.pth", "a.pt", "there is no file none.pth"),
        ("carn-x4", "a.jpg", "a.jpg needs to end in .onnx, .safetensors, .pth or .pt; name it so"),
        ("small.safetensors", "small.safetensors", "small.safetensors is the network itself; choo"),
    ],
)
def test_wrong_use_is_one_sentence(model, output, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(scumble.build("edsr-x2", blocks=1).state_dict(), "plain.pth")
    scumble.save(Tiny(), "tiny.safetensors")
    scumble.save(scumble.build("edsr-x2", blocks=1), "small.safetensors")
    before = sorted(tmp_path.iterdir())
    done = CliRunner().invoke(app, ["export", "-n", model, "-o", output])
    if sentence is None:
        assert done.exit_code == 0
        return
    assert done.exit_code == 2
    assert done.stderr.startswith(f"scumble: {sentence}")
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
