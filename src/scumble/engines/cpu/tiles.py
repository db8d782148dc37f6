"""How rows and lines are cut into tiles that fit the registers."""

from collections.abc import Iterator
from itertools import groupby

from scumble.engines.cpu.conv_kernel import Tile

TALLEST = 4


def cut_rows(first: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield a first row, how many rows, and the height of their tiles."""
    whole = (stop - first) // TALLEST * TALLEST
    if whole:
        yield first, whole, TALLEST
    if first + whole < stop:
        yield first + whole, stop - first - whole, stop - first - whole


def cut_lines(lines: int, high: int, most: int) -> Iterator[tuple[int, int, Tile]]:
    """Yield a first line, a number of tiles, and the tile, so that widths differ by one at most."""
    widest = max(1, most // high)
    count = -(-lines // widest)
    narrow, wide = lines // count, lines % count
    widths = [narrow + 1] * wide + [narrow] * (count - wide)
    start = 0
    for width, same in groupby(widths):
        tiles = len(list(same))
        yield start, tiles, Tile(high, width)
        start += tiles * width
