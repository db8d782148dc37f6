"""Which crops a step trains on: a pure function of the seed and the step.

Nothing is remembered between steps, so a resumed run sees the very crops it would have seen, and
every process of a parallel run finds its share of the same list.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scumble.errors import DataError

# Every crop is turned one of eight ways: transposed or not, mirrored or not, flipped or not.
TURNS = 8

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Crops:
    """Places of square crops in degraded pictures, one entry per crop."""

    picture: Ints
    top: Ints
    left: Ints
    turn: Ints  # 0..7; bit 2 transposes, bit 1 flips rows, bit 0 flips columns

    def __getitem__(self, part: slice) -> "Crops":
        return Crops(self.picture[part], self.top[part], self.left[part], self.turn[part])


class CropPlan:
    """Draws a picture, every one equally likely, and in it a place, every one equally likely.

    A few large photos of sky would otherwise outweigh many small ones full of detail.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]], patch: int, seed: int) -> None:
        if not sizes:
            raise DataError("training needs at least one photo, got none")
        small = [size for size in sizes if min(size) < patch]
        if small:
            height, width = small[0]
            raise DataError(f"crops of {patch} need pictures as large, got {width}x{height}")
        self.rows = np.array([height - patch + 1 for height, _ in sizes])
        self.columns = np.array([width - patch + 1 for _, width in sizes])
        self.seed = seed

    def at(self, step: int, count: int) -> Crops:
        """Return the crops of one step."""
        chance = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, step]))
        picture = chance.integers(len(self.rows), size=count)
        top = chance.integers(self.rows[picture])
        left = chance.integers(self.columns[picture])
        return Crops(picture, top, left, chance.integers(TURNS, size=count))
