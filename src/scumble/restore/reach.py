"""How far around a pixel a network looks, remembered from one process to the next."""

import hashlib

import torch
from torch import Tensor, nn

from scumble.engines.cpu.cache import recall, remember
from scumble.tiles import reach

_WHOLE = b"whole picture"


def known_reach(network: nn.Module, scale: int) -> int | None:
    """Return the reach of a network, as ``scumble.tiles.reach`` finds it in some seconds."""
    name = f"reach/{fingerprint(network)}-x{scale}"
    known = recall(name)
    if known is not None:
        return None if known == _WHOLE else int(known)
    found = reach(network, scale)
    remember(name, _WHOLE if found is None else str(found).encode())
    return found


def fingerprint(network: nn.Module) -> str:
    """Return a word for a network: what it is made of, and its weights."""
    known = hashlib.sha256(repr(network).encode())
    for name, value in network.state_dict().items():
        known.update(name.encode())
        if isinstance(value, Tensor):
            plain = value.detach().cpu().contiguous()
            known.update(str((plain.dtype, tuple(plain.shape))).encode())
            known.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return known.hexdigest()[:32]
