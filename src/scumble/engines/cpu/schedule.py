"""In which order the rows of a few layers are made, so that each finds its input in the cache.

The layers of a group run like a wave: some rows of the first, then all rows of the second that
these allow, and so on. Several threads share a group by rows. A layer's share begins as many rows
further down as its window reaches up, so that a thread finds all it needs above in its own share.
What it lacks below, the first rows of the next thread's share, that thread made long ago: the seam.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise


@dataclass(frozen=True)
class Link:
    """A layer reads what another layer of the group makes."""

    maker: int
    above: int  # rows read above the reader's own row
    below: int


@dataclass(frozen=True)
class Wave:
    """The layers of a group, as far as their rows go."""

    rows: tuple[int, ...]  # that each layer works on
    rate: tuple[int, ...]  # rows of the result for each of them
    links: tuple[tuple[Link, ...], ...]  # by reader
    pace: tuple[int, ...]  # rows to do at a time

    def reach(self) -> tuple[int, ...]:
        """Return how many rows further down each layer's share begins than the group's."""
        found: list[int] = []
        for links in self.links:
            found.append(
                max((found[k.maker] * self.rate[k.maker] + k.above for k in links), default=0)
            )
        return tuple(found)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, Link], ...], ...]:
        """Return the readers of every layer, with how they read."""
        return tuple(
            tuple(
                (reader, k)
                for reader, links in enumerate(self.links)
                for k in links
                if k.maker == at
            )
            for at in range(len(self.rows))
        )


@dataclass(frozen=True)
class Work:
    """Make rows ``first`` up to ``stop`` of a layer."""

    layer: int
    first: int
    stop: int
    keep: int  # rows of the result before this one are no longer needed


@dataclass(frozen=True)
class Seam:
    """Take rows of a layer's result from the next thread."""

    layer: int
    first: int
    stop: int
    keep: int


@dataclass(frozen=True)
class Bottom:
    """The last row is done: what stands below it is known."""

    layer: int
    keep: int


Event = Work | Seam | Bottom


@dataclass(frozen=True)
class Shares:
    """Which rows each thread makes: ``edges[layer][thread]`` up to ``edges[layer][thread + 1]``."""

    edges: tuple[tuple[int, ...], ...]

    @property
    def threads(self) -> int:
        """Return how many threads work."""
        return len(self.edges[0]) - 1

    def seam(self, wave: Wave, maker: int, thread: int) -> tuple[int, int]:
        """Return which rows of a result a thread takes from the next one."""
        end = self.edges[maker][thread + 1] * wave.rate[maker]
        needs = [
            self.edges[reader][thread + 1] + link.below for reader, link in wave.readers[maker]
        ]
        total = wave.rows[maker] * wave.rate[maker]
        return end, min(max([end, *needs]), total)


def share(wave: Wave, threads: int, step: int) -> Shares:
    """Divide the rows of a group: evenly, in steps, each layer's share further down."""
    for count in range(threads, 1, -1):
        shares = _share(wave, count, step)
        if _fits(wave, shares):
            return shares
    return Shares(tuple((0, rows) for rows in wave.rows))


def _share(wave: Wave, threads: int, step: int) -> Shares:
    reach = wave.reach()
    first_rows = wave.rows[0]
    scales = [rows / first_rows for rows in wave.rows]
    middle = sum(r / s for r, s in zip(reach, scales, strict=True)) / len(reach)
    starts = [
        max(0, round((first_rows * t / threads - middle) / step)) * step for t in range(1, threads)
    ]
    edges: list[tuple[int, ...]] = []
    for layer, rows in enumerate(wave.rows):
        found = [0]
        for thread, start in enumerate(starts, 1):
            links = wave.links[layer]
            made = [edges[k.maker][thread] * wave.rate[k.maker] + k.above for k in links]
            found.append(min(rows, max(made, default=round(start * scales[layer]))))
        edges.append((*found, rows))
    return Shares(tuple(edges))


def _fits(wave: Wave, shares: Shares) -> bool:
    """Return whether no thread needs more than its own and the next one's rows."""
    for maker in range(len(wave.rows)):
        edges = [edge * wave.rate[maker] for edge in shares.edges[maker]]
        if any(low >= high for low, high in pairwise(edges)):
            return False
        for thread in range(shares.threads - 1):
            if shares.seam(wave, maker, thread)[1] > edges[thread + 2]:
                return False
    return True


def run(wave: Wave, shares: Shares, thread: int) -> Iterator[Event]:
    """Yield what a thread does, in order."""
    state = _State(wave, shares, thread)
    while not state.finished():
        before = list(state.done)
        for layer in range(len(wave.rows)):
            yield from state.advance(layer)
        assert state.done != before, "a wave that does not move"


class _State:
    def __init__(self, wave: Wave, shares: Shares, thread: int) -> None:
        self.wave, self.shares, self.thread = wave, shares, thread
        self.done = [edges[thread] for edges in shares.edges]
        self.ends = [edges[thread + 1] for edges in shares.edges]
        # Rows of the result that stand ready, further than those made where a seam was taken.
        self.ready = [done * rate for done, rate in zip(self.done, wave.rate, strict=True)]
        self.last = thread == shares.threads - 1

    def finished(self) -> bool:
        return self.done == self.ends

    def advance(self, layer: int) -> Iterator[Event]:
        """Make the next rows of a layer, as many as its inputs allow."""
        wave, first = self.wave, self.done[layer]
        stop = min([self.ends[layer], *self._allowed(layer)])
        if not wave.links[layer]:
            stop = min(stop, first + wave.pace[layer])
        if stop <= first:
            return
        yield Work(layer, first, stop, self._keep(layer))
        self.done[layer] = stop
        self.ready[layer] = stop * wave.rate[layer]
        if stop == self.ends[layer]:
            yield from self._close(layer)

    def _allowed(self, layer: int) -> Iterator[int]:
        for link in self.wave.links[layer]:
            whole = self.wave.rows[link.maker] * self.wave.rate[link.maker]
            if self.ready[link.maker] < whole:
                yield self.ready[link.maker] - link.below

    def _close(self, layer: int) -> Iterator[Event]:
        if self.last:
            yield Bottom(layer, self._keep(layer))
            return
        first, stop = self.shares.seam(self.wave, layer, self.thread)
        if stop > first:
            yield Seam(layer, first, stop, self._keep(layer))
            self.ready[layer] = stop
        if stop == self.wave.rows[layer] * self.wave.rate[layer]:
            yield Bottom(layer, self._keep(layer))

    def _keep(self, layer: int) -> int:
        needed = [self.done[reader] - link.above for reader, link in self.wave.readers[layer]]
        return min(needed, default=self.ready[layer])
