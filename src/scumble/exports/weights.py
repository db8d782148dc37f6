"""Plain weights under their original keys, zeros in place, for the code that a network is from."""

from io import BytesIO

import safetensors.torch
import torch
from torch import Tensor, nn

from scumble.exports.comparison import Run, run
from scumble.exports.facts import Facts
from scumble.exports.formats import FORMATS, Format
from scumble.sealed import in_order


class Torch(Format):
    """A state dict as ``torch.load(path, weights_only=True)`` reads it."""

    name = "torch"
    endings = (".pth", ".pt")

    def content(self, network: nn.Module, facts: Facts) -> bytes:
        """Return the file; this format has no place for facts."""
        file = BytesIO()
        torch.save(_state(network), file)
        return file.getvalue()

    def opened(self, content: bytes, network: nn.Module) -> Run:
        """Return an equal network with the weights that are in a file."""
        return _filled(network, torch.load(BytesIO(content), weights_only=True))


class Safetensors(Format):
    """A state dict as safetensors, with the facts in its header."""

    name = "safetensors"
    endings = (".safetensors",)

    def content(self, network: nn.Module, facts: Facts) -> bytes:
        """Return the file; ``format`` is what others look for in such a header."""
        told = facts.properties() | {"format": "pt"}
        return in_order(safetensors.torch.save(_state(network), told))

    def opened(self, content: bytes, network: nn.Module) -> Run:
        """Return an equal network with the weights that are in a file."""
        return _filled(network, safetensors.torch.load(content))


def _state(network: nn.Module) -> dict[str, Tensor]:
    """Return the state dict, each tensor whole and in memory of its own."""
    return {key: value.detach().contiguous().clone() for key, value in network.state_dict().items()}


def _filled(network: nn.Module, state: dict[str, Tensor]) -> Run:
    network.load_state_dict(state, strict=True)
    return lambda picture: run(network, picture)


FORMATS.register("safetensors")(Safetensors())
FORMATS.register("torch")(Torch())
