from pathlib import Path

import pytest
import torch

import scumble
from scumble.errors import CheckpointError
from scumble.sealed import write_sealed
from scumble.training.state import FORMAT as STATE_FORMAT


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "network.safetensors"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nope", "there is no file nope, and no network of that name in the zoo (carn-x4)"),
        (
            "crn-x4",
            "there is no file crn-x4, and no network of that name in the zoo (carn-x4); "
            "did you mean carn-x4?",
        ),
        (
            "edsr-x4",
            "there are no trained weights of edsr-x4 in the zoo (carn-x4); train it: "
            "scumble train edsr-x4-short, or build it untrained: scumble.build('edsr-x4')",
        ),
        (
            "edsr-x2",
            "there are no trained weights of edsr-x2 in the zoo (carn-x4); "
            "build it untrained: scumble.build('edsr-x2')",
        ),
    ],
)
def test_a_name_that_is_no_file_is_told_what_the_zoo_has(name, sentence, monkeypatch):
    monkeypatch.setattr("scumble.zoo.names", lambda: ["carn-x4"])
    for read in (scumble.load, scumble.read_info):
        with pytest.raises(CheckpointError) as refused:
            read(name)
        assert str(refused.value) == sentence


def test_the_state_of_a_run_is_told_from_its_network(path):
    write_sealed(path, {"step": torch.zeros(1)}, {"kind": STATE_FORMAT})
    with pytest.raises(CheckpointError) as refused:
        scumble.load(path)
    assert str(refused.value) == (
        f"{path} is the state of a training run, not a network; the network of that run is "
        "beside it: network.safetensors or best.safetensors"
    )


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is a text", b"\x89PNG\r\n\x1a\n" + b"IHDR" * 9]
)
def test_files_of_other_kinds_are_no_safetensors_files(path, content):
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as refused:
        scumble.load(path)
    assert str(refused.value) == f"{path} is not a safetensors file"
