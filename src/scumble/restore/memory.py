"""How much memory a network needs, and how much there is."""

import copy
import errno
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from scumble.engines.cpu.machine import free_memory
from scumble.errors import EngineError

# Of the free memory, what a tile may take: others need some, too.
SHARE = 4

# Beyond this, tiles gain little: their halos are small, and their values fit no cache anyway.
LARGEST, SMALLEST = 512, 64
_GRAIN = 16

_UNKNOWN = 2 << 30  # bytes taken as free where the system does not say
_PROBE = 48  # pixels
_COMMON = 16384.0  # bytes per pixel, of a network that cannot be asked


def free_bytes() -> int:
    """Return how much memory is free."""
    free = free_memory()
    return _UNKNOWN if free is None else free


def auto_side(bytes_per_pixel: float, free: int) -> int:
    """Return the side of the largest tile that fits a share of the free memory.

    >>> auto_side(8000, 1 << 30)
    176
    """
    side = int((free / SHARE / bytes_per_pixel) ** 0.5) // _GRAIN * _GRAIN
    return min(max(side, SMALLEST), LARGEST)


class _Heaviest(TorchDispatchMode):
    """Watches for the operation with the most memory in its inputs and results."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        super().__init__()
        self.bytes = 0
        self._weights = {id(weight) for weight in weights}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        held = {id(leaf): leaf for leaf in tree_leaves((args, result)) if isinstance(leaf, Tensor)}
        sizes = (leaf.nbytes for key, leaf in held.items() if key not in self._weights)
        self.bytes = max(self.bytes, sum(sizes))
        return result


def bytes_per_pixel(network: nn.Module) -> float:
    """Return the memory that a network needs for each pixel of a picture, about."""
    hollow = copy.deepcopy(network).to("meta").eval()  # shapes, and nothing to compute
    first = next(hollow.parameters(), torch.empty(0))
    picture = torch.empty(1, 3, _PROBE, _PROBE, dtype=first.dtype, device="meta")
    try:
        with torch.no_grad(), _Heaviest(hollow.parameters()) as heaviest:
            hollow(picture)
    except Exception:  # it asks for values, which shapes do not have
        return _COMMON
    return max(1, heaviest.bytes) / _PROBE**2


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there was no memory left."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = str(error)
    if isinstance(error, EngineError):
        return "MiB of memory, which the system does not" in told
    return isinstance(error, RuntimeError) and (
        "not enough memory" in told or "can't allocate memory" in told or "out of memory" in told
    )
