"""Captures that are found again: the same as fresh ones, never trusted more than they deserve."""

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import scumble
from scumble.engines.cpu.capture import capture
from scumble.engines.cpu.exported import program_of
from scumble.engines.graph import Conv
from tests.engines.cpu.running import Does, assert_same, only_graph, run
from tests.foreign import InLevels, Rlfn


class Various(nn.Module):
    """All kinds of tensors: of layers, of its own, not kept, plain, in the code, folded."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.slopes = nn.PReLU(4)
        self.gain = nn.Parameter(torch.rand(4))
        self.register_buffer("shift", torch.rand(1, 4, 1, 1), persistent=False)
        self.plain = torch.rand(4, 1, 1)
        with torch.no_grad():
            self.norm.running_mean.uniform_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = self.slopes(self.norm(self.conv(x))) * self.gain.view(1, -1, 1, 1)
        return F.relu(y + self.shift - self.plain) * torch.tensor([0.5, 1, 2, 3]).view(4, 1, 1) / 3


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "edsr": lambda: scumble.build("edsr-x2", features=8, blocks=1),
    "carn": lambda: scumble.build("carn-x3", features=8),
    "rfdn": lambda: scumble.build("rfdn-x2", features=8, attention=4, blocks=1),
    "rlfn": lambda: InLevels(Rlfn(features=8, attention=4)),
    "various": Various,
}


def shift_weights(network):
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.is_floating_point():
                tensor.mul_(0.9).add_(0.01)


@pytest.fixture
def no_fresh_capture(monkeypatch):
    """Have every capture fail that is not remembered."""

    def forbid():
        def fail(network):
            raise AssertionError("captured anew")

        monkeypatch.setattr("scumble.engines.cpu.fresh.program_of", fail)

    return forbid


@pytest.mark.parametrize("build", NETWORKS.values(), ids=NETWORKS)
def test_what_is_remembered_is_what_was_captured(build, tmp_path, no_fresh_capture):
    network = build()
    fresh = capture(network, tmp_path / "new" / "folder")
    assert not fresh.remembered
    no_fresh_capture()
    remembered = capture(network, tmp_path / "new" / "folder")
    assert remembered.remembered
    assert only_graph(remembered).graph == only_graph(fresh).graph
    assert remembered.conditions == fresh.conditions
    assert (remembered.input, remembered.output) == (fresh.input, fresh.output)
    weights = only_graph(remembered).weights
    for name, tensor in only_graph(fresh).weights.items():
        assert torch.equal(weights[name], tensor)
        assert weights[name].is_contiguous()
        assert weights[name].dtype == torch.float32
    assert weights.keys() == only_graph(fresh).weights.keys()


@pytest.mark.parametrize("build", NETWORKS.values(), ids=NETWORKS)
def test_weights_that_have_changed_since_are_honoured(build, tmp_path, no_fresh_capture):
    network = build()
    capture(network, tmp_path)
    no_fresh_capture()
    shift_weights(network)
    assert_same(capture(network, tmp_path), network)


def test_a_network_that_is_being_pruned_is_remembered(tmp_path):
    network = scumble.build("edsr-x2", features=16, blocks=1)
    sparse = scumble.sparsify(network, scumble.OneShot("4:16"))
    assert not capture(sparse, tmp_path).remembered
    shift_weights(sparse)
    captured = capture(sparse, tmp_path)
    assert captured.remembered
    assert_same(captured, sparse)


def test_patterns_that_have_changed_since_are_honoured(tmp_path, no_fresh_capture):
    network = scumble.build("edsr-x2", features=32, blocks=1)
    capture(network, tmp_path)
    no_fresh_capture()
    with torch.no_grad():
        network.body[1].weight[:, 5:] = 0
    kept = {
        node.operation.weight: str(node.operation.pattern)
        for node in only_graph(capture(network, tmp_path)).graph.nodes
        if isinstance(node.operation, Conv)
    }
    assert kept["body.1.weight"] == "5:32"
    assert kept["body.0.conv1.weight"] == "None"


def test_what_is_remembered_is_not_moved_by_later_training(tmp_path):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    capture(network, tmp_path)
    remembered = capture(network, tmp_path)
    picture = torch.rand(1, 3, 9, 9)
    before = run(remembered, picture)
    shift_weights(network)
    assert torch.equal(run(remembered, picture), before)


def test_a_new_process_does_not_import_what_captures(tmp_path):
    """The import alone takes a second."""
    code = (
        "import sys, scumble; from pathlib import Path; "
        "from scumble.engines.cpu.capture import capture; "
        "network = scumble.build('edsr-x2', features=8, blocks=1); "
        f"assert capture(network, Path({str(tmp_path)!r})).remembered; "
        "assert 'sympy' not in sys.modules and 'torch._dynamo' not in sys.modules"
    )
    capture(scumble.build("edsr-x2", features=8, blocks=1), tmp_path)
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_weights_are_never_written(tmp_path):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    capture(network, tmp_path)
    (file,) = tmp_path.iterdir()
    assert json.loads(json.loads(file.read_bytes())["content"])["stored"] == {}


def test_nothing_is_remembered_without_a_folder(tmp_path):
    network = nn.Conv2d(3, 3, 1)
    assert not capture(network).remembered
    assert not capture(network).remembered


def hooked():
    network = nn.Conv2d(3, 3, 3, padding=1)
    network.register_forward_hook(lambda module, inputs, result: result * 2)
    return network


def test_of_some_networks_nothing_is_remembered(tmp_path):
    networks = [
        nn.Sequential(nn.Conv2d(3, 3, 1), nn.GELU()),  # more than one piece
        nn.Identity(),  # less than one
        nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 3, 1)),  # a weight that is computed
        hooked(),
        Does(lambda self, x: self.layers[0](x), layers=[nn.Conv2d(3, 3, 1)]),  # hidden
        Does(lambda self, x: F.conv2d(x, self.large), large=torch.rand(200, 3, 3, 3)),  # large
    ]
    for network in networks:
        for _ in range(2):
            captured = capture(network, tmp_path)
            assert not captured.remembered
            assert_same(captured, network)


def truncate(text):
    return text[: len(text) // 2]


def resealed(change):
    """Return a damage that changes the content and puts the right checksum beside it."""

    def damage(text):
        file = json.loads(text)
        content = json.loads(file["content"])
        change(content)
        file["content"] = json.dumps(content)
        file["sha256"] = hashlib.sha256(file["content"].encode()).hexdigest()
        return json.dumps(file)

    return damage


def put(value, *path):
    """Return a change of one place of the content."""

    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return resealed(change)


FIRST, LAST = ("graph", "nodes", 0), ("graph", "nodes", -1)
CONV = ("graph", "nodes", 1, "operation")
DAMAGES = {
    "empty": lambda text: "",
    "no JSON": lambda text: "scumble",
    "cut short": truncate,
    "a list": lambda text: "[]",
    "nested": lambda text: "[" * 100_000,
    "one digit": lambda text: text.replace('stride\\":[1', 'stride\\":[2', 1),
    "another format": lambda text: text.replace('"format": 1', '"format": 0'),
    "another network's": lambda text: text.replace("capture-", "capture-0"),
    "content that is no text": lambda text: json.dumps({**json.loads(text), "content": [1]}),
    "no content": lambda text: json.dumps({"format": 1}),
    "unknown operation": put("Explode", *CONV, "is"),
    "unknown field": put(1, *CONV, "more"),
    "no number": put("1", *CONV, "in_channels"),
    "a truth for a number": put(True, *CONV, "in_channels"),
    "a fraction for a number": put(3.0, *CONV, "in_channels"),
    "too few numbers": put([1], *CONV, "stride"),
    "no stride": put([0, 1], *CONV, "stride"),
    "padding below nothing": put([-1, 1], *CONV, "padding"),
    "other channels": put(4, *CONV, "in_channels"),
    "other outputs": put(9, *CONV, "out_channels"),
    "another kernel": put([5, 5], *CONV, "kernel"),
    "another tensor": put("tail.bias", *CONV, "weight"),
    "an unknown tensor": put("missing", *CONV, "weight"),
    "a bias of another size": put("head.bias", "graph", "nodes", -2, "operation", "bias"),
    "an unknown input": put(["nobody"], *FIRST, "inputs"),
    "an input from later": put(["conv2d_3"], *FIRST, "inputs"),
    "too many inputs": put(["image", "image"], *FIRST, "inputs"),
    "no inputs": put([], *FIRST, "inputs"),
    "a name twice": put("image", *FIRST, "name"),
    "an unknown output": put(["nobody"], "graph", "outputs"),
    "two outputs": put(["add", "add"], "graph", "outputs"),
    "two pictures": put({"image": 3, "other": 3}, "graph", "inputs"),
    "no channels": put({"image": 0}, "graph", "inputs"),
    "a shift of another size": put(4, "origins", "add:shift", "channels"),
    "a huge shift": put(10**12, "origins", "add:shift", "channels"),
    "a shift from elsewhere": put("head.weight", "origins", "add:shift", "of", "name"),
    "a shift from nowhere": put("missing", "origins", "add:shift", "of", "name"),
    "a shape that does not fit": put([-3, -1], "origins", "add:shift", "of", "shape"),
    "a dangerous condition": put(["__import__('os')"], "conditions"),
    "a strange condition": put([1], "conditions"),
    "stored numbers that do not fit": put(
        {"x": {"is": "Stored", "shape": [3], "numbers": [1.0]}}, "stored"
    ),
    "an unknown activation": put(
        {"is": "Activation", "kind": "explode", "slope": 0.0}, "graph", "nodes", 3, "operation"
    ),
    "channels that are none": put(
        {"is": "Channels", "start": 3, "stop": 9}, "graph", "nodes", 3, "operation"
    ),
    "a shuffle of too few": put(
        {"is": "PixelShuffle", "factor": 3}, "graph", "nodes", 3, "operation"
    ),
    "a shuffle by nothing": put(
        {"is": "PixelShuffle", "factor": 0}, "graph", "nodes", 3, "operation"
    ),
    "an unshuffle by nothing": put(
        {"is": "PixelUnshuffle", "factor": 0}, "graph", "nodes", 3, "operation"
    ),
    "a pool of nothing": put(
        {"is": "Pool", "kind": "max", "kernel": [0, 1], "stride": [1, 1], "padding": [0, 0]},
        *("graph", "nodes", 3, "operation"),
    ),
    "a pool of padding": put(
        {"is": "Pool", "kind": "max", "kernel": [1, 1], "stride": [1, 1], "padding": [1, 1]},
        *("graph", "nodes", 3, "operation"),
    ),
    "a resize by nothing": put(
        {"is": "Resize", "kind": "nearest", "factor": [0, 1]}, "graph", "nodes", 3, "operation"
    ),
    "a resize as nothing": put(
        {"is": "Resize", "kind": "nearest", "factor": None}, "graph", "nodes", 3, "operation"
    ),
}


@pytest.fixture(scope="module")
def small():
    return scumble.build("edsr-x2", features=8, blocks=1)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_overwritten(damage, tmp_path, small, caplog):
    capture(small, tmp_path)
    (file,) = tmp_path.iterdir()
    good = file.read_text()
    bad = damage(good)
    assert bad != good
    file.write_text(bad)
    with caplog.at_level(logging.WARNING, "scumble"):
        captured = capture(small, tmp_path)
    assert "a remembered capture is not used" in caplog.text
    assert not captured.remembered
    assert file.read_text() == good
    assert capture(small, tmp_path).remembered


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, caplog):
    taken = tmp_path / "file"
    taken.write_text("")
    network = nn.Conv2d(3, 3, 1)
    assert_same(capture(network, taken / "folder"), network)
    assert "a capture could not be remembered" in caplog.text


def test_a_program_says_where_its_tensors_come_from():
    constants = program_of(Various().eval()).constants.values()
    kinds = {constant.name: constant.kind for constant in constants}
    assert kinds["shift"] == kinds["gain"] == "held"
    assert kinds["plain"] == "stored"
    assert "computed" not in kinds.values()
