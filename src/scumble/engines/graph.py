"""What a network computes, as a small graph of operations that engines know.

A graph holds no tensors: operations name their weights, and whoever runs the graph brings them. A
value is a picture ``[B, C, H, W]``; heights and widths are known once those of the inputs are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scumble.core.pattern import Pattern


@dataclass(frozen=True)
class Conv:
    """A convolution of one group, without dilation, zeros around the picture."""

    in_channels: int
    out_channels: int
    kernel: tuple[int, int]  # height, width
    stride: tuple[int, int]
    padding: tuple[int, int]  # rows above and below, columns left and right
    weight: str
    bias: str | None
    pattern: Pattern | None  # None for a dense one


@dataclass(frozen=True)
class Activation:
    """A function of every number by itself."""

    kind: Literal["relu", "leaky_relu", "sigmoid"]
    slope: float = 0.0  # of a leaky ReLU, below zero


@dataclass(frozen=True)
class Affine:
    """Every channel times a constant, plus a constant: a mean shift, a scaling, a batch norm."""

    scale: str | None  # names of tensors with one number per channel
    shift: str | None


@dataclass(frozen=True)
class Add:
    """The sum of two values; a value of 1x1 pixels counts for all pixels."""


@dataclass(frozen=True)
class Multiply:
    """The product of two values; a value of 1x1 pixels counts for all pixels."""


@dataclass(frozen=True)
class Concat:
    """All inputs, channels after channels."""


@dataclass(frozen=True)
class Channels:
    """The channels from ``start`` up to, but without, ``stop``."""

    start: int
    stop: int


@dataclass(frozen=True)
class PixelShuffle:
    """``factor``² channels become one that is ``factor`` times as high and wide."""

    factor: int


@dataclass(frozen=True)
class PixelUnshuffle:
    """One channel becomes ``factor``² that are ``factor`` times as low and narrow."""

    factor: int


@dataclass(frozen=True)
class Pool:
    """The largest or the mean of every window; padding never wins and counts as zeros in a mean."""

    kind: Literal["max", "mean"]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


@dataclass(frozen=True)
class GlobalMean:
    """The mean of every channel over the whole picture, 1x1 pixels."""


@dataclass(frozen=True)
class Resize:
    """Resized by a whole factor, or to the height and width of a second input."""

    kind: Literal["nearest", "bilinear"]  # bilinear without aligned corners
    factor: tuple[int, int] | None  # None: as the second input


Operation = (
    Conv | Activation | Affine | Add | Multiply | Concat | Channels | PixelShuffle
    | PixelUnshuffle | Pool | GlobalMean | Resize
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One operation on named values; its result goes by its own name."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run."""

    inputs: Mapping[str, int]  # channels of every input, by name
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]


Size = tuple[int, int, int]  # channels, height, width


def sizes(graph: Graph, inputs: Mapping[str, tuple[int, int]]) -> dict[str, Size]:
    """Return the size of every value, given height and width of the inputs."""
    found: dict[str, Size] = {
        name: (channels, *inputs[name]) for name, channels in graph.inputs.items()
    }
    for node in graph.nodes:
        found[node.name] = size_after(node.operation, [found[name] for name in node.inputs])
    return found


def size_after(operation: Operation, given: list[Size]) -> Size:
    """Return the size of what an operation makes of inputs of the given sizes."""
    channels, height, width = given[0]
    match operation:
        case Conv(out_channels=out, kernel=kernel, stride=stride, padding=padding):
            return (out, *_windows((height, width), kernel, stride, padding))
        case Pool(kernel=kernel, stride=stride, padding=padding):
            return (channels, *_windows((height, width), kernel, stride, padding))
        case Concat():
            return (sum(one[0] for one in given), height, width)
        case Channels(start, stop):
            return (stop - start, height, width)
        case PixelShuffle(factor):
            return (channels // factor**2, height * factor, width * factor)
        case PixelUnshuffle(factor):
            return (channels * factor**2, height // factor, width // factor)
        case GlobalMean():
            return (channels, 1, 1)
        case Resize(factor=None):
            return (channels, *given[1][1:])
        case Resize(factor=(down, across)):
            return (channels, height * down, width * across)
        case Add() | Multiply():
            return (channels, max(one[1] for one in given), max(one[2] for one in given))
        case _:
            return given[0]


def _windows(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int]
) -> tuple[int, int]:
    height, width = ((size[i] + 2 * pad[i] - kernel[i]) // stride[i] + 1 for i in range(2))
    return height, width
