"""From a graph to layers: what one kernel does at a time.

Activations, additions, products and scalings join the layer before them where they are its only
reader; concatenation and channel ranges become ways to read; a pixel shuffle a way to write.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from scumble.engines import graph as g
from scumble.engines.cpu.finish import Step, Steps


def given(name: str) -> str:
    """Return the name of an input as it comes: plane after plane."""
    return f"given {name}"


def wanted(name: str) -> str:
    """Return the name of an output as it leaves: plane after plane."""
    return f"wanted {name}"


@dataclass(frozen=True)
class Part:
    """Some channels of a stored value."""

    value: str
    start: int
    count: int


@dataclass(frozen=True)
class Convolve:
    """Kept weights times inputs; ``shuffle`` channels² of the result make one larger picture."""

    conv: g.Conv
    shuffle: int = 1


@dataclass(frozen=True)
class Rearrange:
    """Every number goes to another place of its row, or is mixed of two.

    ``phases``: column ``j * factor + p - before`` of the source becomes column j of phase p, so
    that a window of ``window`` columns that moves ``factor`` at a time reads whole lines.
    """

    kind: Literal["pack", "unpack", "restrip", "phases", "nearest", "bilinear"]
    factor: int = 1
    before: int = 0
    window: int = 1
    beyond: float = 0.0  # what stands outside of the picture


@dataclass(frozen=True)
class Blend:
    """Every row is mixed of two rows of the source."""

    kind: Literal["nearest", "bilinear"]
    factor: int = 1


@dataclass(frozen=True)
class PoolRows:
    """The largest or the mean over windows of a source in phases."""

    pool: g.Pool


@dataclass(frozen=True)
class Copy:
    """The source as it is; steps may follow."""

    first: int = 0  # of the output's channels that are written


@dataclass(frozen=True)
class Mean:
    """The mean of every channel."""


Work = Convolve | Rearrange | Blend | PoolRows | Copy | Mean


@dataclass(frozen=True)
class Layer:
    """One kernel's work: read the source, do the steps, write the output."""

    output: str
    work: Work
    source: tuple[Part, ...]
    steps: Steps = field(default_factory=Steps)
    operands: tuple[Part, ...] = ()
    constants: tuple[tuple[str | None, str | None], ...] = ()  # scale and shift of every affine
    like: str | None = None  # a value whose height and width the output takes

    @cached_property
    def reads(self) -> set[str]:
        """Return the names of all values that are read."""
        return {part.value for part in (*self.source, *self.operands)}


class Lowering:
    """Turns the nodes of a graph into layers, in order."""

    def __init__(self, graph: g.Graph) -> None:
        self.graph = graph
        self.views: dict[str, tuple[Part, ...]] = {}
        self.layers: list[Layer] = []
        self.channels: dict[str, int] = {}
        self.readers = Counter(name for node in graph.nodes for name in node.inputs)
        self.readers.update(graph.outputs)
        self.reader = {name: node for node in graph.nodes for name in node.inputs}
        self.done: set[str] = set()
        self.one_pixel: set[str] = set()  # values that are 1x1 whatever the size of the picture
        self.made: dict[str, Tensor] = {}  # weights of convolutions that only move numbers

    def run(self) -> list[Layer]:
        """Return the layers of the whole graph."""
        for name, channels in self.graph.inputs.items():
            plane = (Part(given(name), 0, channels),)
            self.channels[given(name)] = channels
            self._finish_chain(name, Layer(name, Rearrange("pack"), plane), channels)
        for node in self.graph.nodes:
            if node.name not in self.done:
                self._lower(node)
        for name in self.graph.outputs:
            count = sum(part.count for part in self.views[name])
            self._add(Layer(wanted(name), Rearrange("unpack"), (self._whole(name),)), count)
        return self.layers

    def _lower(self, node: g.Node) -> None:
        source = self.views[node.inputs[0]]
        count = sum(part.count for part in source)
        if self._shrinks(node):
            self.one_pixel.add(node.name)
        match node.operation:
            case g.Concat():
                self.views[node.name] = tuple(p for name in node.inputs for p in self.views[name])
            case g.Channels(start, stop):
                self.views[node.name] = _range(source, start, stop)
            case g.Conv() as conv:
                if conv.stride[1] > 1:
                    across = (conv.stride[1], conv.padding[1], conv.kernel[1])
                    source = (self._phases(node.name, source, across),)
                layer = Layer(node.name, Convolve(conv), source)
                self._finish_chain(node.name, layer, conv.out_channels)
            case g.Pool() as pool:
                beyond = float("-inf") if pool.kind == "max" else 0.0
                across = (pool.stride[1], pool.padding[1], pool.kernel[1])
                view = self._phases(node.name, source, across, beyond)
                self._finish_chain(node.name, Layer(node.name, PoolRows(pool), (view,)), count)
            case g.GlobalMean():
                self._add(Layer(node.name, Mean(), (self._whole(node.inputs[0]),)), count)
                self.views[node.name] = (Part(node.name, 0, count),)
            case g.Resize() as resize:
                self._resize(node, resize, count)
            case g.PixelShuffle(factor):
                weight = torch.eye(count)[:, :, None, None]
                layer = Layer(node.name, Convolve(self._moving(node, weight), factor), source)
                self._finish_chain(node.name, layer, count // factor**2)
            case g.PixelUnshuffle(factor):
                places = torch.eye(factor**2).view(factor**2, 1, factor, factor)
                weight = torch.zeros(count, factor**2, count, factor, factor)
                weight[range(count), :, range(count)] = places[:, 0]
                conv = self._moving(node, weight.flatten(0, 1), factor)
                split = self._phases(node.name, source, (factor, 0, factor))
                layer = Layer(node.name, Convolve(conv), (split,))
                self._finish_chain(node.name, layer, count * factor**2)
            case _:
                self._pointwise(node, count)

    def _shrinks(self, node: g.Node) -> bool:
        """Return whether a result is one pixel for pictures of any size."""
        match node.operation:
            case g.GlobalMean():
                return True
            case g.Resize(factor=None):
                return node.inputs[1] in self.one_pixel
            case g.Resize() | g.PixelShuffle():
                return False
            case _:
                return self.one_pixel.issuperset(node.inputs)

    def _moving(self, node: g.Node, weight: Tensor, stride: int = 1) -> g.Conv:
        """Return a convolution without arithmetic: each number times one."""
        self.made[node.name] = weight
        out, channels, *kernel = weight.shape
        size = (kernel[0], kernel[1])
        return g.Conv(channels, out, size, (stride, stride), (0, 0), node.name, None, None)

    def _pointwise(self, node: g.Node, count: int) -> None:
        """Lower a step that found no layer to join: a copy, with the step."""
        first, *_ = names = list(node.inputs)
        if len(names) == 2 and first in self.one_pixel and names[1] not in self.one_pixel:
            first = names[1]
        for name in names:
            self._whole(name)
        start = Layer(node.name, Copy(), (self._whole(first),))
        joined = self._join(start, node, first)
        if joined is None:
            raise AssertionError(f"{node} is not a step")
        self._finish_chain(node.name, joined, count)

    def _resize(self, node: g.Node, resize: g.Resize, count: int) -> None:
        down, factor = resize.factor or (0, 0)
        like = self.views[node.inputs[1]][0].value if resize.factor is None else None
        across = f"{node.name} across"
        wide = Rearrange(resize.kind, factor)
        self._add(Layer(across, wide, (self._whole(node.inputs[0]),), like=like), count)
        layer = Layer(node.name, Blend(resize.kind, down), (Part(across, 0, count),), like=like)
        self._finish_chain(node.name, layer, count)

    def _phases(
        self,
        name: str,
        source: tuple[Part, ...],
        across: tuple[int, int, int],  # stride, padding and width of the window
        beyond: float = 0.0,
    ) -> Part:
        split = f"{name} phases"
        count = sum(part.count for part in source)
        whole = self._gathered(split + " whole", source)
        work = Rearrange("phases", *across, beyond)
        self._add(Layer(split, work, (whole,)), count * across[0])
        return Part(split, 0, count * across[0])

    def _whole(self, name: str) -> Part:
        """Return a value as one part, from now on."""
        whole = self._gathered(f"{name} whole", self.views[name])
        self.views[name] = (whole,)
        return whole

    def _gathered(self, name: str, view: tuple[Part, ...]) -> Part:
        """Return a view as one part; several are copied together first."""
        if len(view) == 1:
            return view[0]
        count = sum(part.count for part in view)
        first = 0
        for part in view:
            self._add(Layer(name, Copy(first), (part,)), count)
            first += part.count
        return Part(name, 0, count)

    def _add(self, layer: Layer, channels: int) -> None:
        self.channels[layer.output] = channels
        self.layers.append(layer)

    def _finish_chain(self, name: str, layer: Layer, channels: int) -> None:
        """Let the readers join the layer, one after the other, as long as each is the only one."""
        while self.readers[name] == 1 and name in self.reader:
            node = self.reader[name]
            longer = self._join(layer, node, name)
            if longer is None:
                break
            if isinstance(node.operation, g.PixelShuffle):
                channels //= node.operation.factor**2
            if name in self.one_pixel:
                self.one_pixel.add(node.name)
            layer, name = longer, node.name
            self.done.add(name)
        layer = replace(layer, output=name)
        self.views[name] = (Part(name, 0, channels),)
        self._add(layer, channels)

    def _join(self, layer: Layer, node: g.Node, name: str) -> Layer | None:
        """Return the layer with one step more; None if it cannot do that."""
        shuffled = isinstance(layer.work, Convolve) and layer.work.shuffle > 1
        match node.operation:
            case g.Activation(kind, slope):
                return replace(layer, steps=Steps((*layer.steps, Step(kind, slope))))
            case g.Affine(scale, shift) if not shuffled:
                steps = Steps((*layer.steps, Step("affine")))
                return replace(layer, steps=steps, constants=(*layer.constants, (scale, shift)))
            case g.Add() | g.Multiply() if not shuffled:
                return self._join_operand(layer, node, name)
            case g.PixelShuffle(factor) if isinstance(layer.work, Convolve) and not shuffled:
                return replace(layer, work=replace(layer.work, shuffle=factor))
            case _:
                return None

    def _join_operand(self, layer: Layer, node: g.Node, name: str) -> Layer | None:
        first, second = node.inputs
        other = second if first == name else first
        view = self.views.get(other, ())
        pixel = other in self.one_pixel
        small = name in self.one_pixel
        if len(view) != 1 or (small and not pixel):
            return None
        kind = "add" if isinstance(node.operation, g.Add) else "multiply"
        step = Step(kind, pixel=pixel and not small)
        return replace(
            layer, steps=Steps((*layer.steps, step)), operands=(*layer.operands, view[0])
        )


def _range(view: tuple[Part, ...], start: int, stop: int) -> tuple[Part, ...]:
    """Return the parts that hold channels ``start`` to ``stop`` of a view."""
    found: list[Part] = []
    at = 0
    for part in view:
        low, high = max(start - at, 0), min(stop - at, part.count)
        if low < high:
            found.append(Part(part.value, part.start + low, high - low))
        at += part.count
    return tuple(found)


@dataclass(frozen=True)
class Layers:
    """The layers of a graph, and what they are about."""

    layers: list[Layer]
    channels: Mapping[str, int]  # of every stored value
    made: Mapping[str, Tensor]  # weights beside those of the network


def lower(graph: g.Graph) -> Layers:
    """Return the layers of a graph."""
    lowering = Lowering(graph)
    return Layers(lowering.run(), lowering.channels, lowering.made)
