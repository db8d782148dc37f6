"""How a convolution goes through rows and channels: tried out once, then remembered.

What is best depends on the processor's caches more than on anything that could be worked out. The
choice never changes a result: every number is summed up in the same order whatever it is.
"""

import ctypes
import json
import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from functools import cache
from typing import cast

import numpy as np

from scumble.engines.cpu.cache import build_key, recall, remember
from scumble.engines.cpu.content import Content
from scumble.engines.cpu.conv_code import ConvCode
from scumble.engines.cpu.finish import Steps
from scumble.engines.cpu.geometry import Geometry, Shape
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layer_code import Invocation
from scumble.engines.cpu.layers import Convolve, Layer
from scumble.engines.cpu.lists import Blocking, Entries, blocks, shared
from scumble.engines.cpu.memory import Arena
from scumble.engines.cpu.tiles import TALLEST, TALLEST_SHARED, tiles_across

INPUTS = (16, 8, 32)  # channels of a block, for windows of several places
INPUTS_OF_ONE = (64, 32, 16, 128)  # and for windows of one
ENOUGH_SUMS = 24  # registers of a tile, for several output channels to share them
ROWS = 4  # that are made to measure
RUNS = 4
CLEARLY = 1.03  # times as long
_DENSITIES = 32  # weights that are as dense as each other behave alike
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Tuner:
    """Chooses for one target, and remembers for later processes."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._known: dict[str, Blocking] = {}

    def choose(self, layer: Layer, geometry: Geometry, content: Content) -> Blocking:
        """Return the fastest way through a convolution."""
        assert isinstance(layer.work, Convolve)
        kept = content.kept(layer.work.conv.weight)
        ways = list(candidates(layer, kept, self.kernels.target.most_sums))
        if len(ways) == 1:
            return ways[0]
        name = self._name(layer, geometry, kept)
        if name not in self._known:
            self._known[name] = self._recalled(name, ways) or self._measured(
                name, ways, plain(layer), geometry, content
            )
        return self._known[name]

    def _name(self, layer: Layer, geometry: Geometry, kept: Entries) -> str:
        """Return a file name that says what the choice depends on."""
        conv = cast(Convolve, layer.work).conv
        shape = geometry[layer.output]
        assert isinstance(shape, Shape)
        lines = shape.lines // cast(Convolve, layer.work).shuffle
        across = tiles_across(lines, TALLEST, self.kernels.target.most_sums)
        window = "x".join(map(str, (*conv.kernel, *conv.stride)))
        parts = "-".join(str(part.count) for part in layer.source)
        dense = round(kept.density * _DENSITIES)
        width = -(-lines // across)
        return (
            f"code-{build_key(self.kernels.target)}/"
            f"tuned-{parts}-to-{conv.out_channels}-{window}-{dense}-of-{_DENSITIES}-{width}.json"
        )

    @staticmethod
    def _recalled(name: str, ways: list[Blocking]) -> Blocking | None:
        content = recall(name)
        if content is None:
            return None
        return next((way for way in ways if [*astuple(way)] == json.loads(content)), None)

    def _measured(
        self,
        name: str,
        ways: list[Blocking],
        layer: Layer,
        geometry: Geometry,
        content: Content,
    ) -> Blocking:
        codes = [ConvCode(layer, geometry, self.kernels, content, way) for way in ways]
        times = measure(codes, layer, geometry)
        usual = times[0] < CLEARLY * min(times)  # the first of them does well on most machines
        best = ways[0] if usual else ways[times.index(min(times))]
        remember(name, json.dumps(astuple(best)).encode())
        return best


@cache
def tuner(kernels: Kernels) -> Tuner:
    """Return the tuner of this process for a target."""
    return Tuner(kernels)


def candidates(layer: Layer, kept: Entries, most_sums: int) -> Iterator[Blocking]:
    """Yield ways through a convolution that differ."""
    together = shared(kept) if most_sums >= ENOUGH_SUMS else 1
    parts = [part.count for part in layer.source]
    seen: set[tuple[int, int]] = set()
    for rows in (TALLEST, TALLEST_SHARED) if together == 1 else (TALLEST_SHARED,):
        for inputs in INPUTS if kept.taps > 1 else INPUTS_OF_ONE:
            way = len(blocks(parts, inputs)), rows
            if way not in seen:
                seen.add(way)
                yield Blocking(inputs, shared=together, rows=rows)


def plain(layer: Layer) -> Layer:
    """Return a convolution without what follows it, which takes the same time in every way."""
    return replace(layer, steps=Steps(), operands=(), constants=())


def measure(codes: list[ConvCode], layer: Layer, geometry: Geometry) -> list[float]:
    """Return the seconds that each way takes for a few rows, taking turns."""
    memory = _Memory(layer, geometry)
    runs = [list(code.calls(0, ROWS, memory.row)) for code in codes]
    scratch = Arena(max(code.scratch for code in codes))
    times = [[_seconds(calls, scratch) for calls in runs] for _ in range(RUNS)]
    return [min(several) for several in zip(*times, strict=True)]


def _seconds(calls: list[Invocation], scratch: Arena) -> float:
    tables = [np.array(call.words, np.int64) for call in calls]
    functions = [_KERNEL(call.function) for call in calls]
    start = time.perf_counter()
    for function, table in zip(functions, tables, strict=True):
        function(table.ctypes.data, scratch.address)
    return time.perf_counter() - start


class _Memory:
    """A few rows of every value that a convolution touches."""

    def __init__(self, layer: Layer, geometry: Geometry) -> None:
        work = cast(Convolve, layer.work)
        rows = ROWS * max(work.conv.stride[0], work.shuffle) + work.conv.kernel[0]
        self.places: dict[str, tuple[Arena, Shape]] = {}
        for name in (*layer.reads, layer.output):
            shape = geometry[name]
            assert isinstance(shape, Shape)
            arena = Arena((rows + 2 * shape.margin.rows) * shape.row_bytes)
            arena.bytes[:] = 0  # pages that nobody has written to are all the same one
            self.places[name] = arena, shape

    def row(self, name: str, row: int) -> int:
        """Return where a row begins."""
        arena, shape = self.places[name]
        inside = shape.margin.lines * shape.line
        return arena.address + (row + shape.margin.rows) * shape.row_bytes + inside
