"""The kept weights of a convolution, as lists that its kernel walks."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from scumble.engines.cpu.conv_kernel import STEPS_AHEAD
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
class Blocking:
    """How a convolution goes through its channels."""

    inputs: int  # channels of a block
    outputs: int = 128  # at most, of a chunk
    shared: int = 1  # output channels that share what they read
    rows: int = 4  # at most, of a tile


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
    weights: Floats  # for each offset one for every output channel of a tile
    lengths: NDArray[np.int32]  # by chunk, block, output channel
    chunk: int  # lists of a chunk and block

    @property
    def wide(self) -> bool:
        """Return whether offsets take 32 bits."""
        return self.offsets.dtype == np.uint32


def entries(weight: Floats) -> Entries:
    """Return the weights that are not zero."""
    out, channel, down, across = np.nonzero(weight)
    return Entries(out, channel, down, across, weight[out, channel, down, across], weight.shape)


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
    conv: Conv, kept: Entries, cut: list[Block], rows: list[int], pitch: int, how: Blocking
) -> Lists:
    """Return the lists of a layer.

    Args:
        conv: the convolution.
        kept: its weights.
        cut: the blocks, in order.
        rows: lines from row to row of every block's value.
        pitch: lines from channel to channel.
        how: how many channels of either kind are done at a time.
    """
    starts = np.array([block.start for block in cut])
    block = np.searchsorted(starts, kept.channel, side="right") - 1
    stride = conv.stride[1]
    phase, across = kept.across % stride, kept.across // stride
    inside = (phase * conv.in_channels * (stride > 1) + kept.channel - starts[block]) * pitch
    offset = kept.down * np.array(rows)[block] + inside + across
    lists = conv.out_channels // how.shared
    chunk = chunk_size(lists, max(1, how.outputs // how.shared))
    unit, output = kept.out // how.shared, kept.out % how.shared
    key = (unit // chunk * len(cut) + block) * chunk + unit % chunk
    # Channel after channel, however they are cut into blocks, so that sums never differ.
    places = prod(kept.shape[1:])
    place = np.ravel_multi_index((kept.channel, kept.down, kept.across), kept.shape[1:])
    # Output channels of a tile share an entry where they read the same place.
    entry, first, where = np.unique(key * places + place, return_index=True, return_inverse=True)
    weights = np.zeros((len(entry) + STEPS_AHEAD, how.shared), np.float32)
    weights[where, output] = kept.value
    offsets = np.concatenate([offset[first], np.zeros(STEPS_AHEAD + 1, np.int64)])
    narrow = offsets.max() < 1 << 16
    return Lists(
        offsets.astype(np.uint16) if narrow else offsets.astype(np.uint32),
        weights.reshape(-1),
        np.bincount(entry // places, minlength=lists * len(cut)).astype(np.int32),
        chunk,
    )


# Seconds that one product takes, by how many output channels share an input, as measured: alone it
# waits for the load; it need not where most weights of all are kept.
_COST = {1: 1.0, 2: 0.78, 3: 0.70, 4: 0.66}


def shared(kept: Entries) -> int:
    """Return how many output channels had best share what they read."""
    out = kept.shape[0]
    place = np.ravel_multi_index((kept.channel, kept.down, kept.across), kept.shape[1:])
    best, least = 1, _COST[1] * len(place)
    for count, cost in _COST.items():
        if count > 1 and out % count == 0 and kept.density > 0.5:
            pairs = len(np.unique(kept.out // count * np.prod(kept.shape[1:]) + place))
            if pairs * count * cost < least:
                best, least = count, pairs * count * cost
    return best
