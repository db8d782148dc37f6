"""Where values are while a program runs: as a whole, or as the few rows that are needed."""

from dataclasses import dataclass

import numpy as np

from scumble.engines.cpu.geometry import Shape
from scumble.engines.cpu.memory import Arena


@dataclass
class Stored:
    """A value of which all rows stay."""

    shape: Shape
    base: int  # address
    beyond: float  # what stands above and below the picture

    @staticmethod
    def size(shape: Shape) -> int:
        """Return the bytes that a value takes."""
        return (shape.height + 2 * shape.margin.rows) * shape.row_bytes

    def row(self, row: int) -> int:
        """Return the address of a row's first line."""
        inside = shape_start(self.shape)
        return self.base + (row + self.shape.margin.rows) * self.shape.row_bytes + inside

    def surround(self, arena: Arena) -> None:
        """Fill the rows above and below the picture."""
        edge = self.shape.margin.rows * self.shape.row_bytes
        start = self.base - arena.address
        for at in (start, start + self.size(self.shape) - edge):
            arena.bytes[at : at + edge].view(np.float32)[:] = self.beyond


@dataclass
class Ring:
    """A value of which some rows stay, on their way through a thread's memory."""

    shape: Shape
    base: int
    capacity: int  # rows
    origin: int  # the row that stands first

    def row(self, row: int) -> int:
        """Return the address of a row's first line."""
        return self.base + (row - self.origin) * self.shape.row_bytes + shape_start(self.shape)

    def holds(self, stop: int) -> bool:
        """Return whether rows up to ``stop`` have room."""
        return stop - self.origin <= self.capacity


def shape_start(shape: Shape) -> int:
    """Return the bytes from the start of a row to its first line."""
    return shape.margin.lines * shape.line
