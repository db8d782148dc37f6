"""A native piece of a network, with its plans for the sizes of pictures seen lately."""

import threading
from collections import OrderedDict

import torch
from torch import Tensor

from scumble.engines.cpu.content import Content
from scumble.engines.cpu.geometry import Plane
from scumble.engines.cpu.layers import given, lower, wanted
from scumble.engines.cpu.machine import Machine
from scumble.engines.cpu.pieces import NativePiece
from scumble.engines.cpu.plan import Plan
from scumble.engines.cpu.workers import Workers
from scumble.errors import EngineError

# Plans kept for sizes seen before, and the bytes that they may take together.
MOST_PLANS = 16
MOST_BYTES = 1 << 30

Sizes = tuple[tuple[int, ...], ...]


class Native:
    """Runs a graph."""

    def __init__(self, piece: NativePiece, machine: Machine, workers: Workers) -> None:
        self.piece, self.machine, self.workers = piece, machine, workers
        self.inputs, self.outputs = tuple(piece.graph.inputs), piece.graph.outputs
        self.layers = lower(piece.graph)
        self.content = Content({**piece.weights, **self.layers.made})
        self.plans: OrderedDict[Sizes, Plan] = OrderedDict()
        self._lock = threading.Lock()  # a plan's memory serves one run at a time

    def run(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return what the graph makes of one picture, ``[1, C, H, W]`` each."""
        self.workers.check_process()  # before the lock, which another thread may have held then
        with self._lock:
            plan = self.plan(tuple(tuple(value.shape[1:]) for value in values))
            results = [torch.empty(1, *plan.size(name)) for name in self.outputs]
            pictures = zip(map(given, self.inputs), values, strict=True)
            addresses = {name: value.data_ptr() for name, value in pictures}
            for name, value in zip(self.outputs, results, strict=True):
                addresses[wanted(name)] = value.data_ptr()
            self.workers.run(lambda: plan.jobs(addresses), plan.stop)
            return tuple(results)

    def plan(self, sizes: Sizes) -> Plan:
        """Return the plan for inputs of these sizes; the oldest make room for a new one."""
        found = self.plans.get(sizes)
        if found is None:
            try:
                found = self._new(sizes)
            except (EngineError, MemoryError):
                if not self.plans:
                    raise
                self.plans.clear()  # whose memory may be enough
                found = self._new(sizes)
            self.plans[sizes] = found
            while len(self.plans) > 1 and self._too_many():
                self.plans.popitem(last=False)
        self.plans.move_to_end(sizes)
        return found

    def _new(self, sizes: Sizes) -> Plan:
        planes = {given(name): Plane(*size) for name, size in zip(self.inputs, sizes, strict=True)}  # pyright: ignore
        return Plan(self.layers, self.content, planes, self.machine)

    def _too_many(self) -> bool:
        memory = sum(plan.memory for plan in self.plans.values())
        return len(self.plans) > MOST_PLANS or memory > MOST_BYTES
