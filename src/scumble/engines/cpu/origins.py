"""Where the tensors of a captured graph come from: what a network holds, and how to fold it.

An origin has no numbers of the network in it, so that it stays right when the weights change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Held:
    """A parameter or buffer by its path, or a tensor kept beside the graph, in some shape."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class PerChannel:
    """``factor`` times, or divided by, a number for each channel or one for all of them."""

    of: Held | float
    channels: int
    factor: float = 1.0
    divides: bool = False


@dataclass(frozen=True)
class Folded:
    """The scale or the shift that a batch norm comes to."""

    part: Literal["scale", "shift"]
    channels: int
    weight: Held | None
    bias: Held | None
    mean: Held
    variance: Held
    epsilon: float


Origin = Held | PerChannel | Folded


def tensor_of(origin: Origin, held: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor that an origin describes, in 32-bit floats and memory in one piece."""
    match origin:
        case Held(name, shape):
            result = held[name].detach().reshape(shape)
        case PerChannel(of, channels, factor, divides):
            numbers = _numbers(of, held)
            result = (factor / numbers if divides else factor * numbers).expand(channels)
        case Folded():
            result = _fold(origin, held).expand(origin.channels)
    return result.to(torch.float32).contiguous()


def _fold(norm: Folded, held: Mapping[str, Tensor]) -> Tensor:
    """Return scale or shift, computed in 64 bits: 32 would double the error of the norm."""
    variance = _numbers(norm.variance, held)
    weight = _numbers(1.0 if norm.weight is None else norm.weight, held)
    scale = weight / (variance + norm.epsilon).sqrt()
    if norm.part == "scale":
        return scale
    bias = _numbers(0.0 if norm.bias is None else norm.bias, held)
    return bias - _numbers(norm.mean, held) * scale


def _numbers(of: Held | float, held: Mapping[str, Tensor]) -> Tensor:
    if isinstance(of, Held):
        return held[of.name].detach().flatten().to(torch.float64)
    return torch.tensor([of], dtype=torch.float64)
