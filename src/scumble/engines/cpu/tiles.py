"""How rows and lines are cut into tiles that fit the registers."""

from collections.abc import Iterator
from itertools import groupby

from scumble.engines.cpu.conv_kernel import Tile

TALLEST = 4
TALLEST_SHARED = 2  # where several output channels share the registers


def cut_rows(first: int, stop: int, tallest: int = TALLEST) -> Iterator[tuple[int, int, int]]:
    """Yield a first row, how many rows, and the height of their tiles."""
    whole = (stop - first) // tallest * tallest
    if whole:
        yield first, whole, tallest
    if first + whole < stop:
        yield first + whole, stop - first - whole, stop - first - whole


def tiles_across(lines: int, high: int, most: int, outputs: int = 1) -> int:
    """Return how many tiles stand side by side, for none to have more than ``most`` sums."""
    return -(-lines // max(1, most // high // outputs))


def cut_lines(
    lines: int, high: int, most: int, outputs: int = 1
) -> Iterator[tuple[int, int, Tile]]:
    """Yield a first line, a number of tiles, and the tile, so that widths differ by one at most."""
    count = tiles_across(lines, high, most, outputs)
    narrow, wide = lines // count, lines % count
    widths = [narrow + 1] * wide + [narrow] * (count - wide)
    start = 0
    for width, same in groupby(widths):
        tiles = len(list(same))
        yield start, tiles, Tile(high, width, outputs)
        start += tiles * width
