"""Where to look at a large picture, so that all pieces have one size and none knows less.

A piece is exact where it sees as far around as the network does, or up to the picture's own
border, beyond which the network sees nothing either. All windows of one picture have one size,
for which an engine makes itself ready once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# Window lengths are multiples of this many pixels: pictures of nearly one size share theirs.
STEP = 16


@dataclass(frozen=True)
class Span:
    """One window along one side: what is looked at, and which part of it is right."""

    start: int
    stop: int
    right_from: int
    right_to: int


def spans(length: int, longest: int, halo: int) -> list[Span]:
    """Return windows of equal length, of ``longest`` pixels at most, that cover a side.

    >>> [(span.start, span.stop) for span in spans(100, 64, 8)]
    [(0, 64), (36, 100)]
    """
    if length <= longest:
        return [Span(0, length, 0, length)]
    count = -(-(length - 2 * halo) // (longest - 2 * halo))
    needed = -(-(length - 2 * halo) // count) + 2 * halo
    window = min(-(-needed // STEP) * STEP, longest)
    starts = [index * (length - window) // (count - 1) for index in range(count)]
    return [
        Span(
            start,
            start + window,
            0 if index == 0 else starts[index - 1] + window - halo,
            length if index == count - 1 else start + window - halo,
        )
        for index, start in enumerate(starts)
    ]


def windows(height: int, width: int, longest: int, halo: int) -> Iterator[tuple[Span, Span]]:
    """Yield the windows of a picture, row by row: down and across."""
    for down in spans(height, longest, halo):
        for across in spans(width, longest, halo):
            yield down, across
