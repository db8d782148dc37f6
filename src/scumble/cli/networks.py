"""Networks as commands take them: by name, or in a file."""

import os
from typing import TYPE_CHECKING

from scumble.errors import NetworkError

if TYPE_CHECKING:
    from torch import nn

FILE_ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt")


def open_network(network: str, belongs_to: str | None = None) -> "nn.Module":
    """Return the network that was named, with fresh weights, or the one in a file."""
    import scumble
    from scumble.models import NetworkSpec

    if not is_file(network):
        spec = NetworkSpec.parse(network)
        if belongs_to is not None:
            raise NetworkError(
                f"--network says which network a file belongs to, got the network {network} "
                f"itself; leave --network out"
            )
        return spec.build()
    return scumble.load(
        network, None if belongs_to is None else NetworkSpec.parse(belongs_to).build()
    )


def open_trained(network: str, belongs_to: str | None = None) -> "nn.Module":
    """Return the network in a file or of the zoo; by another name, always the same weights."""
    import torch

    import scumble
    import scumble.zoo

    if network in scumble.zoo.names() and belongs_to is None:
        return scumble.load(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return open_network(network, belongs_to)


def is_file(text: str) -> bool:
    """Return whether a file is meant; a folder may well be called like a network."""
    return text.lower().endswith(FILE_ENDINGS) or os.sep in text or os.path.isfile(text)
