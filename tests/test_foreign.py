import os
import pickle
import random

import pytest
import torch

import scumble
from scumble.errors import CheckpointError
from scumble.foreign import read_torch


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
        CheckpointError, match="damaged or holds more than tensors.* nothing of it was executed"
    ):
        scumble.load(archive, "carn-x4")
    assert not mark.exists()


STATE = {"a": torch.arange(36.0).view(4, 1, 3, 3), "b": torch.arange(5)}


def mutations(content: bytes, count: int):
    """Yield damaged copies: cut, or with one to four bytes changed."""
    chance = random.Random(0)
    for _ in range(count):
        changed = bytearray(content)
        if chance.random() < 0.2:
            yield bytes(changed[: chance.randrange(len(changed))])
            continue
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed)


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_files_are_refused_or_load_in_the_same_shapes(tmp_path, zipped):
    path = tmp_path / "state.pth"
    torch.save(STATE, path, _use_new_zipfile_serialization=zipped)
    template = Holder()
    refusals, loaded = [], 0
    for content in mutations(path.read_bytes(), 150):
        path.write_bytes(content)
        try:
            state = scumble.load(path, template).state_dict()
        except CheckpointError as error:
            refusals.append(str(error))
        else:
            loaded += 1
            assert [t.shape for t in state.values()] == [t.shape for t in STATE.values()]
    assert min(len(refusals), loaded) > 10
    for told in refusals:
        assert told.startswith(str(path))
        assert "\n" not in told
        assert not told.endswith(": ")
        assert len(told) < len(str(path)) + 300


class Holder(torch.nn.Module):
    """A network of the two tensors."""

    def __init__(self):
        super().__init__()
        for name, tensor in STATE.items():
            self.register_buffer(name, torch.zeros_like(tensor))


@pytest.mark.parametrize(
    "error", [AssertionError, IndexError, TypeError, AttributeError, MemoryError, RuntimeError]
)
def test_whatever_torch_trips_over_becomes_one_sentence_with_a_reason(tmp_path, monkeypatch, error):
    def trip(*_, **__):
        raise error

    (tmp_path / "a.pth").write_bytes(b"anything")
    monkeypatch.setattr(torch, "load", trip)
    with pytest.raises(CheckpointError, match=f"not a whole file of torch's: {error.__name__}$"):
        read_torch(tmp_path / "a.pth")


def test_of_a_long_reason_the_first_sentence_is_kept(tmp_path):
    (tmp_path / "a.pth").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CheckpointError) as refused:
        read_torch(tmp_path / "a.pth")
    reason = str(refused.value).partition("torch's: ")[2]
    assert reason.startswith("PytorchStreamReader failed")
    assert len(reason) < 160
    assert ". " not in reason


def test_an_empty_file_is_called_so(tmp_path):
    (tmp_path / "a.pth").write_bytes(b"")
    with pytest.raises(CheckpointError, match="a.pth is not a whole file of torch's: it is empty$"):
        scumble.load(tmp_path / "a.pth", "carn-x4")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([1, 2], "needs to hold a state dict of tensors, got something else"),
        ({"params": 3}, "needs to hold a state dict of tensors, got something else"),
        ({"a": 3}, "got a int at 'a'"),
        ({1: torch.zeros(2)}, "got a key that is a int at 1"),
        ({"a": torch.eye(3).to_sparse()}, "got a sparse tensor at 'a'"),
        ({"a": torch.zeros(2, device="meta")}, "got a tensor without memory at 'a'"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "got a tensor of complex numbers at 'a'"),
    ],
)
def test_only_plain_tensors_by_name_are_taken(tmp_path, content, sentence):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match=sentence):
        scumble.load(tmp_path / "a.pth", "carn-x4")


@pytest.mark.filterwarnings("ignore")  # torch will drop or change them
def test_quantized_and_nested_tensors_are_refused(tmp_path):
    odd = {
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.ones(2)]),
    }
    for kind, tensor in odd.items():
        torch.save({"a": tensor}, tmp_path / "a.pth")
        with pytest.raises(CheckpointError, match=f"got a {kind} tensor at 'a'"):
            scumble.load(tmp_path / "a.pth", "carn-x4")


def test_a_tensor_that_reaches_beyond_the_file_is_refused(tmp_path):
    grown = {"a": torch.zeros(2)}
    torch.save(grown, tmp_path / "a.pth")
    real = torch.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "load", lambda *a, **k: {"a": real(*a, **k)["a"].new_zeros(10**6)})
        with pytest.raises(CheckpointError, match="not a whole file of torch's: 'a' is larger"):
            read_torch(tmp_path / "a.pth")


def test_half_weights_of_others_load_in_the_type_of_the_network(tmp_path):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    torch.save(network.half().state_dict(), tmp_path / "a.pth")
    template = scumble.build("edsr-x2", features=8, blocks=1)
    loaded = scumble.load(tmp_path / "a.pth", template)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}


def test_weights_of_others_that_are_not_finite_are_refused(tmp_path):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    state = network.state_dict()
    state["head.bias"][0] = float("nan")
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match="a.pth: head.bias needs finite numbers, got others"):
        scumble.load(tmp_path / "a.pth", network)
