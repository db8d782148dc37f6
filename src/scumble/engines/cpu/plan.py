"""A network made ready for one size of picture: memory, tables and lists of calls."""

import ctypes
from collections.abc import Mapping

import numpy as np

from scumble.engines.cpu.content import Content
from scumble.engines.cpu.conv_code import ConvCode
from scumble.engines.cpu.geometry import Fitting, Geometry, Plane
from scumble.engines.cpu.groups import Costs, group
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layer_code import LayerCode, Outside
from scumble.engines.cpu.layers import Convolve, Layer, Layers, Mean, wanted
from scumble.engines.cpu.machine import Machine, give_way
from scumble.engines.cpu.memory import Arena
from scumble.engines.cpu.placement import Placement
from scumble.engines.cpu.program import Program
from scumble.engines.cpu.row_code import MeanCode, RowCode
from scumble.engines.cpu.tuning import tuner
from scumble.engines.cpu.worker_kernel import CALL_BYTES

# Counts of different threads stand in different lines of the cache.
_COUNT_WORDS = 16


class Plan:
    """Lists of calls for one size of picture, and the memory they work in."""

    def __init__(
        self,
        layers: Layers,
        content: Content,
        planes: Mapping[str, Plane],
        machine: Machine,
    ) -> None:
        kernels, threads = machine.kernels, machine.threads
        fitted, self.geometry = Fitting(layers, planes, kernels.target.lanes).run()
        self.layers = fitted
        self.codes = [code_for(layer, self.geometry, kernels, content) for layer in fitted]
        flops = [code.flops for code in self.codes]
        self.groups = group(Costs(fitted, self.geometry, flops, machine.cache))
        self.placement = Placement(fitted, self.groups, self.geometry)
        program = Program(
            fitted, self.codes, self.groups, self.geometry, kernels, threads, self.placement
        )
        self.scratch = [Arena(max(code.scratch for code in self.codes)) for _ in range(threads)]
        self.stop = ctypes.c_int64(0)
        self._counts = np.zeros(threads * _COUNT_WORDS, np.int64)
        self._outside: list[tuple[int, str, int]] = []  # word, picture, offset
        self._write(program)

    def _write(self, program: Program) -> None:
        """Turn the lists into words with addresses."""
        words = [word for calls in program.calls for call in calls for word in call[1]]
        self._words = np.zeros(len(words) + 1, np.int64)
        start = self._words.ctypes.data
        at = 0
        self._lists: list[np.ndarray] = []
        self._programs: list[np.ndarray] = []
        plain = np.array([0 if isinstance(word, Outside) else word for word in words], np.int64)
        self._words[: len(words)] = plain
        self._outside = [
            (index, word.name, word.offset)
            for index, word in enumerate(words) if isinstance(word, Outside)
        ]  # fmt: skip
        for thread, calls in enumerate(program.calls):
            rows = np.zeros((len(calls), CALL_BYTES // 8), np.int64)
            for index, (function, own, after) in enumerate(calls):
                awaited = self._count(after.thread) if after else 0
                rows[index] = function, start + 8 * at, awaited, after.calls if after else 0
                at += len(own)
            self._lists.append(rows)
            stop = ctypes.addressof(self.stop)
            self._programs.append(
                np.array(
                    [len(calls), rows.ctypes.data, self._count(thread), stop, give_way()], np.int64
                )
            )

    def _count(self, thread: int) -> int:
        return self._counts.ctypes.data + thread * _COUNT_WORDS * 8

    def jobs(self, pictures: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return what the threads run, for pictures at the given addresses."""
        for index, name, offset in self._outside:
            self._words[index] = pictures[name] + offset
        self._counts[:] = 0
        return [
            (program.ctypes.data, scratch.address)
            for program, scratch in zip(self._programs, self.scratch, strict=True)
        ]

    def size(self, output: str) -> tuple[int, int, int]:
        """Return channels, height and width of an output."""
        plane = self.geometry[wanted(output)]
        return plane.channels, plane.height, plane.width

    @property
    def memory(self) -> int:
        """Return the bytes of all values."""
        return sum(arena.size for arena in (*self.placement.arenas, *self.scratch))


def code_for(layer: Layer, geometry: Geometry, kernels: Kernels, content: Content) -> LayerCode:
    """Return the tables of a layer."""
    match layer.work:
        case Convolve():
            how = tuner(kernels).choose(layer, geometry, content)
            return ConvCode(layer, geometry, kernels, content, how)
        case Mean():
            return MeanCode(layer, geometry, kernels)
        case _:
            return RowCode(layer, geometry, kernels, content.weights)
