"""A convolution for one size of picture: its lists, and the calls that make some of its rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scumble.engines.cpu import lists
from scumble.engines.cpu.content import Content
from scumble.engines.cpu.conv_kernel import ConvKernel
from scumble.engines.cpu.geometry import Geometry, sideways
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layer_code import (
    Invocation,
    LayerCode,
    Range,
    Where,
    Word,
    further,
    per_channel,
)  # fmt: skip
from scumble.engines.cpu.layers import Convolve, Layer
from scumble.engines.cpu.tiles import cut_lines, cut_rows

MOST_ASKED = 12  # lines after one list: more would hold up the sums
_END = (0, 1 << 62)


class ConvCode(LayerCode):
    """A convolution."""

    def __init__(
        self,
        layer: Layer,
        geometry: Geometry,
        kernels: Kernels,
        content: Content,
        blocking: lists.Blocking,
    ) -> None:
        super().__init__(layer, geometry, kernels)
        assert isinstance(layer.work, Convolve)
        self.conv, self.shuffle = layer.work.conv, layer.work.shuffle
        self.source, self.out = self.shape(layer.source[0].value), self.shape(layer.output)
        self.across = replace(
            self.out, width=self.out.width // self.shuffle, lines=self.out.lines // self.shuffle
        )
        kept = content.kept(self.conv.weight)
        strided = self.conv.stride[1] > 1
        counts = [self.conv.in_channels] if strided else [part.count for part in layer.source]
        cut = lists.blocks(counts, blocking.inputs)
        rows = [self.shape(layer.source[block.part].value).row for block in cut]
        built = lists.build(self.conv, kept, cut, rows, self.source.pitch, blocking)
        self.wide, self.chunk, self.shared = built.wide, built.chunk, blocking.shared
        self.tallest = blocking.rows
        self.lists = len(built.lengths)
        self.flops = 2.0 * len(kept.value) * self.across.width * self.out.height / self.shuffle
        self.nothing = self.table([*_END])
        self.words = self.table(
            [
                *self._tables(built, cut, rows, content.weights),
                *self.step_words(content.weights, self.conv.out_channels),
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
        bias = per_channel(weights, self.conv.bias, 0.0, self.conv.out_channels)
        return [
            self.conv.out_channels // built.chunk // self.shared,
            built.chunk,
            len(cut),
            self.table(np.array(records, np.int64)),
            self.table(built.offsets),
            self.table(built.weights),
            self.table(built.lengths),
            self.table(bias),
            self.table(self._out_channels()),
            self.out.row_bytes * self.shuffle,
            self.line * self.shuffle,
            self.table(self.across.mask()),
        ]

    def _out_channels(self) -> NDArray[np.int64]:
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

    def calls(
        self, first: int, stop: int, where: Where, ahead: Sequence[Range] = ()
    ) -> Iterator[Invocation]:
        """Yield a call for every tile size that the rows are cut into."""
        left = sideways(self.layer)[0] * self.line
        for row, count, high in cut_rows(first, stop, self.tallest):
            source_row = row * self.conv.stride[0] - self.conv.padding[0]
            parts = [
                further(self.part_word(part, source_row, where), -left)
                for part in self.layer.source
            ]
            out = where(self.layer.output, row * self.shuffle)
            operands = self.operand_words(row, where)
            most = self.kernels.target.most_sums
            for start, tiles, tile in cut_lines(self.across.lines, high, most, self.shared):
                kernel = ConvKernel(tile, self.layer.steps, self.across.padded, self.wide)
                asked = self._ask(ahead, count // high * tiles * self.lists)
                ahead = ()
                words = [self.words, count, tiles, start, out, *asked, *operands, *parts]
                yield Invocation(self.kernels.address(kernel), words)

    def _ask(self, ahead: Sequence[Range], lists: int) -> list[Word]:
        """Return the table of lines to ask for, and how many after each list."""
        total = sum(lines for _, lines in ahead)
        if not total:
            return [self.nothing, 0]
        pairs = [word for pair in ahead for word in pair]
        return [self.table([*pairs, *_END]), min(-(-total // lists), MOST_ASKED)]
