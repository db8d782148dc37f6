import json
import os
import struct

import pytest
import torch
from safetensors import safe_open

from scumble.errors import CheckpointError
from scumble.sealed import read_sealed, refusal, write_sealed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def tensors(text_length: int = 0):
    return {"a": torch.randn(3, 5), "b" + "x" * text_length: torch.arange(7, dtype=torch.uint8)}


def header_length(content: bytes) -> int:
    return struct.unpack("<Q", content[:8])[0]


@pytest.mark.parametrize("length", range(8))
def test_the_data_start_at_a_multiple_of_eight(path, length):
    write_sealed(path, tensors(length), {"said": "x" * length})
    assert (8 + header_length(path.read_bytes())) % 8 == 0


@pytest.mark.parametrize("length", range(8))
def test_plain_safetensors_reads_what_was_written(path, length):
    written = tensors(length) | {"empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5)}
    write_sealed(path, written, {"said": "ö" * length})
    with safe_open(path, "pt") as file:
        assert sorted(file.keys()) == sorted(written)
        for key, tensor in written.items():
            assert torch.equal(file.get_tensor(key), tensor)
        assert json.loads(file.metadata()["scumble"]) == {"said": "ö" * length}
    found, info = read_sealed(path)
    assert info == {"said": "ö" * length}
    assert all(torch.equal(found[key], tensor) for key, tensor in written.items())


def test_a_file_without_its_seal_has_lost_it(path):
    write_sealed(path, tensors(), {})
    path.write_bytes(path.read_bytes().replace(b'"sha256"', b'"sha255"'))
    with pytest.raises(CheckpointError, match="has lost its seal; it was changed after it was"):
        read_sealed(path)


def test_a_changed_value_breaks_the_seal(path):
    write_sealed(path, tensors(), {})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="does not match its seal"):
        read_sealed(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "needs to be a JSON object, got list"),
        ("3", "needs to be a JSON object, got int"),
        ('"text"', "needs to be a JSON object, got str"),
        ("null", "needs to be a JSON object, got NoneType"),
        ("not\njson", "is not JSON that can be read"),
        ("[" * 100_000, "is not JSON that can be read: maximum recursion depth"),
        ('{"format":' * 50_000, "is not JSON that can be read: maximum recursion depth"),
        (f'{{"format": {"9" * 5000}}}', "is not JSON that can be read: Exceeds the limit"),
    ],
    ids=["list", "int", "str", "null", "words", "deep list", "deep object", "long number"],
)
def test_a_sealed_description_that_is_no_object_is_refused(path, monkeypatch, text, reason):
    with monkeypatch.context() as patch:
        real = json.dumps
        # Only the description itself is written with sorted keys.
        lie = lambda value, **how: text if "sort_keys" in how else real(value, **how)  # noqa: E731
        patch.setattr("scumble.sealed.json.dumps", lie)
        write_sealed(path, tensors(), {})
    with pytest.raises(CheckpointError) as refused:
        read_sealed(path)
    assert str(refused.value).startswith(f"{path}: its description ")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_refusal_is_one_line_of_bounded_length():
    assert str(refusal("a\nb\x1b[1mc\ud800")) == "a?b?[1mc?"
    assert len(str(refusal("x" * 10**6))) == 1001


def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError) as refused:
        read_sealed(pipe)
    assert str(refused.value) == f"{pipe} is a device or pipe, a checkpoint is a file"


@pytest.mark.parametrize("name", ["", "no\0name.safetensors"])
def test_places_that_cannot_be_written_are_named(tmp_path, name):
    with pytest.raises(CheckpointError, match="could not be written: (it is a folder|embedded)"):
        write_sealed(tmp_path / name, tensors(), {})
