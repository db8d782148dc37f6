"""One layer for one size of picture: its tables, and the calls that make some of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scumble.engines.cpu import conv_kernel, lists, row_kernel
from scumble.engines.cpu.conv_kernel import ConvKernel
from scumble.engines.cpu.geometry import Geometry, Plane, Shape, sideways
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layers import (
    Blend, Convolve, Copy, Layer, Mean, Part, PoolRows, Rearrange,
)  # fmt: skip
from scumble.engines.cpu.row_kernel import MeanKernel, RowKernel
from scumble.engines.cpu.tiles import cut_lines, cut_rows

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Outside:
    """An address in a picture that is known when the program runs."""

    name: str
    offset: int


Word = int | Outside
Where = Callable[[str, int], Word]  # a value and its row -> the address of the row's first line


@dataclass(frozen=True)
class Invocation:
    """One call of a kernel."""

    function: int
    words: list[Word]


def bits(number: float) -> int:
    """Return a float as the lower half of a word."""
    return int(np.float32(number).view(np.uint32))


class LayerCode(ABC):
    """The tables of a layer."""

    def __init__(self, layer: Layer, geometry: Geometry, kernels: Kernels) -> None:
        self.layer, self.geometry, self.kernels = layer, geometry, kernels
        self.lanes = kernels.target.lanes
        self.line = 4 * self.lanes
        self.kept: list[NDArray[np.generic]] = []  # tables that the code refers to

    @abstractmethod
    def calls(self, first: int, stop: int, where: Where) -> Iterator[Invocation]:
        """Yield the calls that make rows ``first`` up to ``stop``."""

    scratch = 0  # bytes that a thread needs for sums

    def table(self, values: NDArray[np.generic] | list[int]) -> int:
        """Keep a table, aligned to lines, and return its address."""
        raw = np.ascontiguousarray(
            np.asarray(values, np.int64 if isinstance(values, list) else None)
        )
        room = np.zeros(raw.nbytes + self.line, np.uint8)
        start = -room.ctypes.data % self.line
        placed = room[start : start + raw.nbytes]
        placed[:] = raw.reshape(-1).view(np.uint8)
        self.kept.append(room)
        return placed.ctypes.data

    def shape(self, name: str) -> Shape:
        """Return the shape of a value in strips."""
        found = self.geometry[name]
        assert isinstance(found, Shape)
        return found

    def step_words(self, weights: Mapping[str, Tensor], channels: int) -> list[int]:
        """Return what the layer's steps read of a table of words."""
        words: list[int] = []
        operands, constants = iter(self.layer.operands), iter(self.layer.constants)
        for step in self.layer.steps:
            if step.operand:
                shape = self.shape(next(operands).value)
                words += [shape.channel_bytes, shape.row_bytes]
            elif step.kind == "affine":
                scale, shift = next(constants)
                words += [
                    self.table(_per_channel(weights, scale, 1.0, channels)),
                    self.table(_per_channel(weights, shift, 0.0, channels)),
                ]
            else:
                words += [0, 0]
        return words

    def operand_words(self, row: int, where: Where) -> list[Word]:
        """Return where the operands of a row begin."""
        pixels = [step.pixel for step in self.layer.steps if step.operand]
        return [
            self.part_word(part, 0 if pixel else row, where)
            for part, pixel in zip(self.layer.operands, pixels, strict=True)
        ]

    def part_word(self, part: Part, row: int, where: Where) -> Word:
        """Return where the first channel of a part begins in a row."""
        shape = self.geometry[part.value]
        return further(where(part.value, row), part.start * shape.channel_bytes)


def further(word: Word, offset: int) -> Word:
    """Return an address some bytes on."""
    if isinstance(word, Outside):
        return replace(word, offset=word.offset + offset)
    return word + offset


def _per_channel(
    weights: Mapping[str, Tensor], name: str | None, otherwise: float, channels: int
) -> NDArray[np.float32]:
    if name is None:
        return np.full(channels, otherwise, np.float32)
    return weights[name].reshape(-1).expand(channels).numpy().astype(np.float32)


@dataclass(frozen=True)
class Blocking:
    """How a convolution goes through its channels."""

    inputs: int  # channels of a block
    outputs: int = 128  # at most, of a chunk


class ConvCode(LayerCode):
    """A convolution."""

    def __init__(
        self,
        layer: Layer,
        geometry: Geometry,
        kernels: Kernels,
        weights: Mapping[str, Tensor],
        kept: lists.Entries,
        blocking: Blocking,
    ) -> None:
        super().__init__(layer, geometry, kernels)
        assert isinstance(layer.work, Convolve)
        self.conv, self.shuffle = layer.work.conv, layer.work.shuffle
        self.source, self.out = self.shape(layer.source[0].value), self.shape(layer.output)
        self.across = replace(
            self.out, width=self.out.width // self.shuffle, lines=self.out.lines // self.shuffle
        )
        strided = self.conv.stride[1] > 1
        counts = [self.conv.in_channels] if strided else [part.count for part in layer.source]
        cut = lists.blocks(counts, blocking.inputs)
        rows = [self.shape(layer.source[block.part].value).row for block in cut]
        chunk = lists.chunk_size(self.conv.out_channels, blocking.outputs)
        built = lists.build(self.conv, kept, cut, rows, self.source.pitch, chunk)
        self.wide, self.chunk = built.wide, chunk
        self.words = self.table(
            [
                *self._tables(built, cut, rows, weights),
                *self.step_words(weights, self.conv.out_channels),
            ]
        )

    def _tables(
        self,
        built: lists.Lists,
        cut: list[lists.Block],
        rows: list[int],
        weights: Mapping[str, Tensor],
    ) -> list[int]:
        first = {block.part: block.start for block in reversed(cut)}
        records = [
            [block.part, (block.start - first[block.part]) * self.source.channel_bytes,
             row * self.line * self.conv.stride[0]]
            for block, row in zip(cut, rows, strict=True)
        ]  # fmt: skip
        bias = _per_channel(weights, self.conv.bias, 0.0, self.conv.out_channels)
        return [
            self.conv.out_channels // built.chunk,
            built.chunk,
            len(cut),
            self.table(np.array(records, np.int64)),
            self.table(built.offsets),
            self.table(built.weights),
            self.table(built.lists),
            self.table(bias),
            self.table(self._out_channels()),
            self.out.row_bytes * self.shuffle,
            self.line * self.shuffle,
            self.table(self.across.mask()),
        ]

    def _out_channels(self) -> Longs:
        """Return where each output channel goes: shuffled, into rows and lines of one channel."""
        channel, place = np.divmod(np.arange(self.conv.out_channels), self.shuffle**2)
        down, across = np.divmod(place, self.shuffle)
        return (
            channel * self.out.channel_bytes + down * self.out.row_bytes + across * self.line
        ).astype(np.int64)

    @property
    def scratch(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the bytes that sums of a chunk take."""
        return self.chunk * self.kernels.target.most_sums * self.line

    def calls(self, first: int, stop: int, where: Where) -> Iterator[Invocation]:
        """Yield a call for every tile size that the rows are cut into."""
        sums = self.kernels.target.most_sums
        left = sideways(self.layer)[0] * self.line
        for row, count, high in cut_rows(first, stop):
            source_row = row * self.conv.stride[0] - self.conv.padding[0]
            parts = [
                further(self.part_word(part, source_row, where), -left)
                for part in self.layer.source
            ]
            out = where(self.layer.output, row * self.shuffle)
            operands = self.operand_words(row, where)
            for start, tiles, tile in cut_lines(self.across.lines, high, sums):
                kernel = ConvKernel(tile, self.layer.steps, self.across.padded, self.wide)
                words = [self.words, count, tiles, start, out, *operands, *parts]
                yield Invocation(self.kernels.address(kernel), words)


class RowCode(LayerCode):
    """A layer that makes one line at a time."""

    def __init__(
        self, layer: Layer, geometry: Geometry, kernels: Kernels, weights: Mapping[str, Tensor]
    ) -> None:
        super().__init__(layer, geometry, kernels)
        out, source = geometry[layer.output], geometry[layer.source[0].value]
        self.plane = isinstance(out, Plane)
        count = layer.source[0].count
        lines = -(-out.width // self.lanes) if isinstance(out, Plane) else out.lines
        padded = isinstance(out, Shape) and out.padded
        self.kernel = RowKernel(self._kind(), layer.steps, padded, self.plane)
        self.address = kernels.address(self.kernel)
        self.down, self.above = 1, 0
        if isinstance(layer.work, PoolRows):
            self.down, self.above = layer.work.pool.stride[0], layer.work.pool.padding[0]
            count //= layer.work.pool.stride[1]
        self.first_out = layer.work.first if isinstance(layer.work, Copy) else 0
        table, second, share, number = self._tables(out, source)
        mask = self.table(out.mask()) if isinstance(out, Shape) else 0
        beyond = layer.work.beyond if isinstance(layer.work, Rearrange) else 0.0
        phases = layer.work.factor if self._phased else 1
        self.words = [
            self.table([
                count, lines, out.row_bytes, out.channel_bytes, source.row_bytes * self.down,
                source.channel_bytes, mask, at, second, share, number, out.width, bits(beyond),
                *self.step_words(weights, count),
            ])
            for at in (table + phase * lines * self.line for phase in range(phases))
        ]  # fmt: skip

    @property
    def _phased(self) -> bool:
        work = self.layer.work
        return isinstance(work, Rearrange) and work.kind == "phases"

    def _kind(self) -> row_kernel.Source:
        match self.layer.work:
            case Copy():
                return "copy"
            case Rearrange("bilinear"):
                return "mix"
            case Rearrange():
                return "gather"
            case Blend():
                return "blend"
            case PoolRows(pool):
                return pool.kind
            case _:
                raise AssertionError(self.layer)

    def _tables(self, out: Shape | Plane, source: Shape | Plane) -> tuple[int, int, int, int]:
        """Return the tables of first and second places, of shares, and how many places there are."""
        match self.layer.work:
            case Rearrange(kind, factor, before) if isinstance(out, Shape):
                columns = out.columns()
                if kind == "phases":
                    phases = np.arange(factor, dtype=np.int32)[:, None, None]
                    return self.table(_places(source, columns * factor + phases - before)), 0, 0, 0
                if kind in ("nearest", "bilinear"):
                    low, high, share = between(columns, source.width, out.width, kind)
                    return (
                        *(self.table(_places(source, at)) for at in (low, high)),
                        self.table(share),
                        0,
                    )
                return (
                    self.table(_places(source, np.where(columns < out.width, columns, -1))),
                    0,
                    0,
                    0,
                )
            case Rearrange() if isinstance(source, Shape):  # to a plane
                width = -(-out.width // self.lanes) * self.lanes
                return self.table(source.places(np.arange(width, dtype=np.int32))), 0, 0, 0
            case Blend(kind):
                rows = np.arange(out.height, dtype=np.int32)
                low, high, share = between(rows, source.height, out.height, kind)
                table = np.zeros((out.height, 3), np.int64)
                table[:, 0], table[:, 1] = low, high
                table[:, :2] *= source.row_bytes
                table[:, 2] = share.view(np.uint32)
                return self.table(table), 0, 0, 0
            case PoolRows(pool):
                return self._windows(pool.kernel, pool.stride[1], source)
            case _:
                return 0, 0, 0, 0

    def _windows(
        self, kernel: tuple[int, int], stride: int, source: Shape | Plane
    ) -> tuple[int, int, int, int]:
        down, across = np.divmod(np.arange(kernel[0] * kernel[1]), kernel[1])
        phase = across % stride * self.layer.source[0].count // stride
        offsets = (
            down * source.row_bytes + phase * source.channel_bytes + across // stride * self.line
        )
        return self.table(offsets.astype(np.int64)), 0, 0, len(offsets)

    def calls(self, first: int, stop: int, where: Where) -> Iterator[Invocation]:
        """Yield one call, or one for every phase."""
        part, out = self.layer.source[0], self.geometry[self.layer.output]
        source_row = 0 if isinstance(self.layer.work, Blend) else first * self.down - self.above
        source = self.part_word(part, source_row, where)
        for phase, words in enumerate(self.words):
            into = (self.first_out + phase * part.count) * out.channel_bytes
            target = further(where(self.layer.output, first), into)
            operands = self.operand_words(first, where)
            yield Invocation(self.address, [words, first, stop - first, target, source, *operands])


def _places(source: Shape | Plane, columns: NDArray[np.int32]) -> NDArray[np.int32]:
    if isinstance(source, Shape):
        return source.places(columns)
    return np.where((columns >= 0) & (columns < source.width), columns, -1).astype(np.int32)


def between(
    index: NDArray[np.int32], source: int, out: int, kind: str
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Return between which two numbers of the source each result stands, and how near the second."""
    index = np.minimum(index, out - 1)
    scale = np.float32(source) / np.float32(out)
    if kind == "nearest":
        low = np.minimum(np.floor(index.astype(np.float32) * scale), source - 1).astype(np.int32)
        return low, low, np.zeros(index.shape, np.float32)
    at = np.maximum((index.astype(np.float32) + np.float32(0.5)) * scale - np.float32(0.5), 0)
    low = np.minimum(at.astype(np.int32), source - 1)
    share = np.clip(at - low, 0, 1).astype(np.float32)
    return low, np.minimum(low + 1, source - 1).astype(np.int32), share


class MeanCode(LayerCode):
    """The mean of every channel; works on channels where others work on rows."""

    def __init__(self, layer: Layer, geometry: Geometry, kernels: Kernels) -> None:
        super().__init__(layer, geometry, kernels)
        self.source, self.out = self.shape(layer.source[0].value), self.shape(layer.output)

    def calls(self, first: int, stop: int, where: Where) -> Iterator[Invocation]:
        """Yield one call for channels ``first`` up to ``stop``."""
        part = self.layer.source[0]
        words = self.table([
            stop - first, self.source.lines, self.out.row_bytes, self.out.channel_bytes,
            self.source.row_bytes, self.source.channel_bytes, 0, 0, 0, 0,
            self.source.height * self.source.width, 0, 0,
        ])  # fmt: skip
        source = further(self.part_word(part, 0, where), first * self.source.channel_bytes)
        out = further(where(self.layer.output, 0), first * self.out.channel_bytes)
        task: list[Word] = [words, 0, self.source.height, out, source]
        yield Invocation(self.kernels.address(MeanKernel()), task)
