"""One layer for one size of picture: its tables, and the calls that make some of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scumble.engines.cpu.geometry import Geometry, Shape
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layers import (
    Layer,
    Part,
)  # fmt: skip

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


# An address and a number of lines.
Range = tuple[int, int]


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
    def calls(
        self, first: int, stop: int, where: Where, ahead: Sequence[Range] = ()
    ) -> Iterator[Invocation]:
        """Yield the calls that make rows ``first`` up to ``stop``, asking for lines meanwhile."""

    scratch = 0  # bytes that a thread needs for sums
    flops = 0.0

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
                    self.table(per_channel(weights, scale, 1.0, channels)),
                    self.table(per_channel(weights, shift, 0.0, channels)),
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


def per_channel(
    weights: Mapping[str, Tensor], name: str | None, otherwise: float, channels: int
) -> NDArray[np.float32]:
    """Return a number for each channel: a weight by name, or one number for all."""
    if name is None:
        return np.full(channels, otherwise, np.float32)
    return weights[name].reshape(-1).expand(channels).numpy().astype(np.float32)
