"""Where the numbers of a value lie: strips side by side in the lanes of vectors.

The width is cut into as many strips as a vector has lanes; lane l of a line belongs to strip l. So
the neighbours of a line to the left and right are whole lines too. A row holds channel after
channel, each with a few lines on both sides for the columns beyond the strips.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scumble.engines.cpu.emitter import FLOAT
from scumble.engines.cpu.layers import (
    Blend,
    Convolve,
    Copy,
    Layer,
    Layers,
    Mean,
    Part,
    PoolRows,
    Rearrange,
)  # fmt: skip

Ints = NDArray[np.int32]

# Rows begin at different places of the first-level cache, whose sets repeat every 64 lines.
_CACHE_SETS, _ROW_STAGGER = 64, 13


@dataclass(frozen=True)
class Margin:
    """What every value has around it."""

    rows: int  # above and below
    lines: int  # on both sides of a channel's row


@dataclass(frozen=True)
class Shape:
    """A value in strips."""

    channels: int
    height: int
    width: int
    lines: int  # columns of a strip
    lanes: int
    margin: Margin

    @property
    def line(self) -> int:
        """Return the bytes of a line."""
        return self.lanes * FLOAT

    @cached_property
    def pitch(self) -> int:
        """Return the lines from channel to channel: an odd number."""
        return (self.lines + 2 * self.margin.lines) | 1

    @cached_property
    def row(self) -> int:
        """Return the lines from row to row."""
        used = self.channels * self.pitch
        return used if used < _CACHE_SETS else used + (_ROW_STAGGER - used) % _CACHE_SETS

    @cached_property
    def row_bytes(self) -> int:
        """Return the bytes from row to row."""
        return self.row * self.line

    @cached_property
    def channel_bytes(self) -> int:
        """Return the bytes from channel to channel."""
        return self.pitch * self.line

    @property
    def padded(self) -> bool:
        """Return whether some lanes lie beyond the right edge."""
        return self.lines * self.lanes != self.width

    def columns(self) -> Ints:
        """Return the column of every line and lane."""
        lines, lanes = np.ogrid[: self.lines, : self.lanes]
        return (lanes * self.lines + lines).astype(np.int32)

    def places(self, columns: Ints) -> Ints:
        """Return where columns stand in a row, in floats; -1 for columns beyond the picture."""
        inside = (columns >= 0) & (columns < self.width)
        found = columns % self.lines * self.lanes + columns // self.lines
        return np.where(inside, found, -1).astype(np.int32)

    def mask(self) -> Ints:
        """Return all bits for columns in the picture, none for those beyond."""
        return np.where(self.columns() < self.width, -1, 0).astype(np.int32)


@dataclass(frozen=True)
class Plane:
    """A picture as it comes and goes: plane after plane, row after row."""

    channels: int
    height: int
    width: int

    @property
    def row_bytes(self) -> int:
        """Return the bytes from row to row."""
        return self.width * FLOAT

    @property
    def channel_bytes(self) -> int:
        """Return the bytes from channel to channel."""
        return self.height * self.row_bytes


Geometry = dict[str, Shape | Plane]


def margin(layers: Iterable[Layer]) -> Margin:
    """Return the rows and lines that some layer reads beyond a value."""
    rows, lines = 0, 0
    for layer in layers:
        match layer.work:
            case Convolve(conv=window) | PoolRows(pool=window):
                above, below = window.padding[0], window.kernel[0] - 1 - window.padding[0]
                rows = max(rows, above, below)
                lines = max(lines, *sideways(layer))
            case _:
                pass
    return Margin(rows, lines)


def sideways(layer: Layer) -> tuple[int, int]:
    """Return how many lines left and right of its own a layer reads."""
    match layer.work:
        case Convolve(conv=window) | PoolRows(pool=window):
            if isinstance(layer.work, PoolRows) or window.stride[1] > 1:
                return 0, (window.kernel[1] - 1) // window.stride[1]
            return window.padding[1], max(0, window.kernel[1] - 1 - window.padding[1])
        case _:
            return 0, 0


class Fitting:
    """Finds the shape of every value for one size of picture."""

    def __init__(self, layers: Layers, planes: Mapping[str, Plane], lanes: int) -> None:
        self.given = layers
        self.shapes: Geometry = dict(planes)
        self.lanes = lanes
        self.margin = margin(layers.layers)
        self.layers: list[Layer] = []

    def run(self) -> tuple[list[Layer], Geometry]:
        """Return the layers, with a rearrangement where strips of two values differ."""
        for layer in self.given.layers:
            fitted = self._agree(layer)
            shape = self._shape(fitted)
            known = self.shapes.setdefault(layer.output, shape)
            assert known == shape, (layer, known, shape)
            self.layers.append(fitted)
        return self.layers, self.shapes

    def of(self, name: str) -> Shape:
        """Return the shape of a value in strips."""
        shape = self.shapes[name]
        assert isinstance(shape, Shape)
        return shape

    def _strips(self, width: int) -> int:
        return max(-(-width // self.lanes), self.margin.lines, 1)

    def _agree(self, layer: Layer) -> Layer:
        """Bring everything that a layer reads to the strips of what it reads first."""
        if isinstance(layer.work, Rearrange | Blend | Mean):
            if not layer.operands:
                return layer
            source, lines = layer.source, self._lines_of(layer)
        else:
            first = self.of(layer.source[0].value)
            lines = max(first.lines, self._widened(layer, first))
            source = tuple(self._as(part, lines) for part in layer.source)
        pixels = [step.pixel for step in layer.steps if step.operand]
        operands = tuple(
            part if pixel else self._as(part, lines)
            for part, pixel in zip(layer.operands, pixels, strict=True)
        )
        return replace(layer, source=source, operands=operands)

    def _lines_of(self, layer: Layer) -> int:
        shape = self._shape(layer)
        assert isinstance(shape, Shape)
        return shape.lines

    def _widened(self, layer: Layer, source: Shape) -> int:
        """Return the lines that a result wider than its source takes."""
        if isinstance(layer.work, Convolve):
            return self._strips(self._size(layer, source)[1] // layer.work.shuffle)
        return 1

    def _as(self, part: Part, lines: int) -> Part:
        shape = self.of(part.value)
        if shape.lines == lines:
            return part
        name = f"{part.value} {part.start}+{part.count} in {lines}"
        if name not in self.shapes:
            self.layers.append(Layer(name, Rearrange("restrip"), (part,)))
            self.shapes[name] = Shape(
                part.count, shape.height, shape.width, lines, self.lanes, self.margin
            )
        return Part(name, 0, part.count)

    def _shape(self, layer: Layer) -> Shape | Plane:
        source = self.shapes[layer.source[0].value]
        channels = self.given.channels[layer.output]
        size = self._size(layer, source)
        if isinstance(layer.work, Rearrange) and layer.work.kind == "unpack":
            return Plane(channels, *size)
        return Shape(channels, *size, self._lines(layer, source, size[1]), self.lanes, self.margin)

    def _size(self, layer: Layer, source: Shape | Plane) -> tuple[int, int]:
        height, width = source.height, source.width
        match layer.work:
            case Convolve(conv, shuffle):
                down = (height + 2 * conv.padding[0] - conv.kernel[0]) // conv.stride[0] + 1
                if conv.stride[1] > 1:  # its source is in phases
                    across = width - sideways(layer)[1]
                else:
                    across = width + 2 * conv.padding[1] - conv.kernel[1] + 1
                return down * shuffle, across * shuffle
            case PoolRows(pool):
                down = (height + 2 * pool.padding[0] - pool.kernel[0]) // pool.stride[0] + 1
                return down, width - sideways(layer)[1]
            case Rearrange("phases", factor, before, window):
                across = (width + 2 * before - window) // factor + 1
                return height, across + (window - 1) // factor
            case Rearrange("nearest" | "bilinear", factor):
                return height, self.shapes[layer.like].width if layer.like else width * factor
            case Blend(_, factor):
                return self.shapes[layer.like].height if layer.like else height * factor, width
            case Mean():
                return 1, 1
            case _:
                return height, width

    def _lines(self, layer: Layer, source: Shape | Plane, width: int) -> int:
        match layer.work:
            case Convolve(shuffle=shuffle) if isinstance(source, Shape):
                return source.lines * shuffle
            case Rearrange("nearest" | "bilinear", factor) if isinstance(source, Shape):
                return self.of(layer.like).lines if layer.like else source.lines * factor
            case Copy() | PoolRows() | Blend() if isinstance(source, Shape):
                return source.lines
            case _:
                return self._strips(width)
