"""From any network to pieces that the engine runs, and pieces that PyTorch runs."""

import copy
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from scumble.engines.cpu.pieces import Captured
from scumble.engines.cpu.remembered import file_of, recall, remember
from scumble.errors import EngineError
from scumble.methods import Pruning
from scumble.nn.masked_conv import MaskedConv2d
from scumble.nn.surgery import densify_

_lock = threading.Lock()  # torch.export, and the count of torch's threads, are the process's


def capture(network: nn.Module, cache: Path | None = None) -> Captured:
    """Return what a network computes from one picture of any size; it is not changed itself.

    Args:
        network: takes one picture and returns one, in 32-bit floats on the CPU; a network that is
            being pruned is captured as it is pruned now.
        cache: a folder that remembers captures, without weights. What was remembered may be out
            of date where code outside of the network's classes has changed: compare its results.
    """
    with _lock, _one_thread():
        return _capture(network, cache)


def _capture(network: nn.Module, cache: Path | None) -> Captured:
    plain = _plain(network)
    file = None if cache is None else file_of(plain, cache)
    blueprint = None if file is None else recall(file, plain)
    if blueprint is not None:
        return blueprint.with_weights_of(plain)
    # Only here: torch.export takes about a second to import.
    from scumble.engines.cpu.fresh import capture_afresh

    captured, blueprint = capture_afresh(plain)
    if file is not None and blueprint is not None:
        remember(file, blueprint)
    return captured


@contextmanager
def _one_thread() -> Generator[None]:
    """Have PyTorch work on one thread: where others compute, waking more takes it far longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _plain(network: nn.Module) -> nn.Module:
    """Return a copy to evaluate, in which patterns are zeros in plain convolutions."""
    try:
        plain = copy.deepcopy(network)
    except (RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise EngineError(
            f"{type(network).__name__} cannot be copied, so it cannot be captured: {reason}"
        ) from error
    for module in [*plain.modules()]:
        pruning = getattr(module, "pruning", None)
        if isinstance(pruning, Pruning):
            pruning.finish_(module)
            del module.pruning
    if any(isinstance(module, MaskedConv2d) for module in plain.modules()):
        densify_(plain)
    return plain.eval()
