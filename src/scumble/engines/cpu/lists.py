"""The kept weights of a convolution, as lists that its kernel walks."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from scumble.engines.cpu.conv_kernel import AHEAD
from scumble.engines.graph import Conv

Longs = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Block:
    """Input channels that are added up at one go; all of one stored value."""

    part: int
    start: int  # among the layer's input channels
    stop: int


@dataclass(frozen=True)
class Entries:
    """Every kept weight with its place, by output channel."""

    out: Longs
    channel: Longs  # input channel
    down: Longs  # rows below the first that the window covers
    across: Longs  # columns to the right of the first
    value: Floats
    shape: tuple[int, ...]  # of the weight

    @property
    def taps(self) -> int:
        """Return the places of the window."""
        return self.shape[2] * self.shape[3]

    @property
    def density(self) -> float:
        """Return the share of weights that are kept."""
        return len(self.value) / max(1, prod(self.shape))


@dataclass(frozen=True)
class Lists:
    """What a kernel reads: offsets, weights, and the length of every list."""

    offsets: NDArray[np.uint16] | NDArray[np.uint32]
    weights: Floats
    lists: NDArray[np.int32]  # by chunk, block, output channel: length, output channel in the chunk
    chunk: int

    @property
    def wide(self) -> bool:
        """Return whether offsets take 32 bits."""
        return self.offsets.dtype == np.uint32


def entries(weight: Floats) -> Entries:
    """Return the weights that are not zero."""
    out, channel, down, across = np.nonzero(weight)
    return Entries(
        out, channel, down, across, weight[out, channel, down, across], weight.shape
    )


def blocks(parts: list[int], size: int) -> list[Block]:
    """Cut the channels of every part into blocks of about ``size``."""
    found: list[Block] = []
    start = 0
    for index, count in enumerate(parts):
        pieces = -(-count // size)
        edges = [start + count * piece // pieces for piece in range(pieces + 1)]
        found += [Block(index, low, high) for low, high in pairwise(edges)]
        start += count
    return found


def chunk_size(channels: int, largest: int) -> int:
    """Return the largest divisor of the output channels that is at most ``largest``."""
    return max(size for size in range(1, min(channels, largest) + 1) if channels % size == 0)


def build(
    conv: Conv, kept: Entries, cut: list[Block], rows: list[int], pitch: int, chunk: int
) -> Lists:
    """Return the lists of a layer.

    Args:
        conv: the convolution.
        kept: its weights.
        cut: the blocks, in order.
        rows: lines from row to row of every block's value.
        pitch: lines from channel to channel.
        chunk: output channels that are done before the next are begun.
    """
    starts = np.array([block.start for block in cut])
    block = np.searchsorted(starts, kept.channel, side="right") - 1
    stride = conv.stride[1]
    phase, across = kept.across % stride, kept.across // stride
    inside = (kept.channel - starts[block]) * pitch
    if stride > 1:  # phases stand one after the other, each with all channels
        inside = (phase * conv.in_channels + kept.channel - starts[block]) * pitch
    offset = kept.down * np.array(rows)[block] + inside + across
    key = (kept.out // chunk * len(cut) + block) * chunk + kept.out % chunk
    order = np.argsort(key, kind="stable")
    lengths = np.bincount(key, minlength=conv.out_channels * len(cut))
    numbers = np.tile(np.arange(chunk), len(lengths) // chunk)
    kind = np.uint16 if offset.max(initial=0) < 1 << 16 else np.uint32
    return Lists(
        np.concatenate([offset[order], np.zeros(AHEAD + 2, np.int64)]).astype(kind),
        np.concatenate([kept.value[order], np.zeros(AHEAD + 2)]).astype(np.float32),
        np.stack([lengths, numbers], 1).astype(np.int32),
        chunk,
    )
