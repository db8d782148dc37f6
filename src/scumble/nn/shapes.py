"""Running a network on shapes alone, under the eyes of somebody who takes notes."""

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.backends import mha
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from scumble.errors import NetworkError


class Notes(TorchDispatchMode, ABC):
    """Somebody who sees every operation of a network that runs, and takes notes."""

    @abstractmethod
    def begin(self, shadow: nn.Module, picture: Tensor) -> None:
        """Get ready for a copy of the network, which will run on this picture."""

    def end(self, result: object) -> None:
        """Note what the network returned."""


def run_on_shapes(network: nn.Module, size: tuple[int, int], example: Tensor, notes: Notes) -> None:
    """Have notes taken while ``network`` runs on an RGB picture of height x width.

    The picture is of the type of ``example``. Nothing is computed, and the network's own tensors
    are what the notes see.
    """
    try:
        shadow = _shadow(network)
        with _on_shapes_alone():
            picture = torch.empty(1, 3, *size, dtype=example.dtype, device=example.device)
            notes.begin(shadow, picture)
            with notes:
                result = shadow(picture)
            notes.end(result)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"{type(network).__name__} cannot be run on an RGB picture of "
            f"{size[1]}x{size[0]}: {reason}"
        ) from error


def _shadow(network: nn.Module) -> nn.Module:
    """Return a copy to evaluate, which shares every tensor but none of what a run leaves behind."""
    # Also what somebody cached: it may be large, and the result of a computation has no copy.
    held = (tree_leaves(vars(module)) for module in network.modules())
    tensors = [leaf for leaves in held for leaf in leaves if _shared(leaf)]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors}).eval()


def _shared(value: object) -> bool:
    """Return whether a shadow shares this; torch really computes with single fake numbers."""
    if isinstance(value, Tensor):
        return value.numel() > 1 or value.requires_grad or isinstance(value, nn.Parameter)
    return False


@contextmanager
def _on_shapes_alone() -> Iterator[None]:
    """Have everything run in its plainest form on tensors without memory."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level, fast = logger.level, mha.get_fastpath_enabled()
    # It prints the traceback of an error that we report ourselves.
    logger.setLevel(logging.CRITICAL)
    # It fuses all products of an attention into one call.
    mha.set_fastpath_enabled(False)
    try:
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            FakeTensorMode(allow_non_fake_inputs=True),
        ):
            yield
    finally:
        mha.set_fastpath_enabled(fast)
        logger.setLevel(level)
