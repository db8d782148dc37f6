"""Layers without a convolution, for one size of picture: tables, and calls that make some rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scumble.engines.cpu import row_kernel
from scumble.engines.cpu.geometry import Geometry, Plane, Shape
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layer_code import (
    Invocation,
    LayerCode,
    Range,
    Where,
    Word,
    bits,
    further,
)  # fmt: skip
from scumble.engines.cpu.layers import Blend, Copy, Layer, PoolRows, Rearrange
from scumble.engines.cpu.row_kernel import MeanKernel, RowKernel


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
        self.words = [
            self.table([
                count, lines, out.row_bytes, out.channel_bytes, source.row_bytes * self.down,
                source.channel_bytes, mask, at, second, share, number, out.width, bits(beyond),
                *self.step_words(weights, count),
            ])
            for at in (table + phase * lines * self.line for phase in range(self._phases))
        ]  # fmt: skip

    @property
    def _phases(self) -> int:
        work = self.layer.work
        return work.factor if isinstance(work, Rearrange) and work.kind == "phases" else 1

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
        """Return the tables of first and second places, of shares, and how many places."""
        match self.layer.work:
            case Rearrange(kind, factor, before) if isinstance(out, Shape):
                columns = out.columns()
                if kind == "phases":
                    phases = np.arange(factor, dtype=np.int32)[:, None, None]
                    return self.table(_places(source, columns * factor + phases - before)), 0, 0, 0
                if kind in ("nearest", "bilinear"):
                    low, high, share = between(columns, source.width, out.width, kind)
                    first, second = (self.table(_places(source, at)) for at in (low, high))
                    return first, second, self.table(share), 0
                inside = np.where(columns < out.width, columns, -1)
                return self.table(_places(source, inside)), 0, 0, 0
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

    def calls(
        self, first: int, stop: int, where: Where, ahead: Sequence[Range] = ()
    ) -> Iterator[Invocation]:
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
    """Return which two numbers of the source each result is between, and how near the second."""
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

    def calls(
        self, first: int, stop: int, where: Where, ahead: Sequence[Range] = ()
    ) -> Iterator[Invocation]:
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
