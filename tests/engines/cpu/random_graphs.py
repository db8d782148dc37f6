"""Random graphs for the kernels, with the truth from PyTorch beside them."""

from dataclasses import dataclass, field, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from scumble.engines import graph as g
from scumble.engines.cpu.kernels import kernels
from scumble.engines.cpu.machine import Machine
from scumble.engines.cpu.native import Native
from scumble.engines.cpu.pieces import NativePiece
from scumble.engines.cpu.target import Target, target
from scumble.engines.cpu.worker_kernel import WorkerKernel
from scumble.engines.cpu.workers import Workers
from scumble.engines.interpret import interpret


@dataclass
class Case:
    """A graph with weights and pictures."""

    graph: g.Graph
    weights: dict[str, Tensor]
    pictures: dict[str, Tensor]

    def truth(self) -> dict[str, Tensor]:
        """Return the outputs in double precision."""
        weights = {name: value.double() for name, value in self.weights.items()}
        pictures = {name: value.double() for name, value in self.pictures.items()}
        return interpret(self.graph, weights, pictures)


def native(case: Case, threads: int = 1, cache: int = 1 << 18, on: Target | None = None) -> Native:
    """Return the engine's piece for a graph; a small cache makes for many groups."""
    code = kernels(on or target())
    workers = Workers(threads, code.address(WorkerKernel()))
    return Native(NativePiece(case.graph, case.weights), Machine(code, threads, cache), workers)


def outputs(case: Case, piece: Native) -> dict[str, Tensor]:
    """Return what the engine makes of the pictures."""
    results = piece.run(*(case.pictures[name] for name in case.graph.inputs))
    piece.workers.close()
    return dict(zip(case.graph.outputs, results, strict=True))


def worst(case: Case, found: dict[str, Tensor]) -> float:
    """Return the largest error, in parts of the largest number."""
    errors = [
        float((found[name] - wanted).abs().max() / wanted.abs().max().clamp(min=1e-3))
        for name, wanted in case.truth().items()
    ]
    return max(errors)


@dataclass
class Building:
    """A graph while it grows."""

    height: int
    width: int
    weights: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[g.Node] = field(default_factory=list)
    sizes: dict[str, g.Size] = field(default_factory=dict)

    def add(self, operation: g.Operation, *inputs: str) -> str:
        """Append a node and return its name."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(g.Node(name, operation, inputs))
        self.sizes[name] = g.size_after(operation, [self.sizes[i] for i in inputs])
        return name

    def tensor(self, *shape: int, density: float = 1.0) -> str:
        """Make a random weight and return its name."""
        name = f"w{len(self.weights)}"
        value = torch.randn(shape) / max(1.0, (density * torch.Size(shape[1:]).numel()) ** 0.5)
        self.weights[name] = value * (torch.rand(shape) < density)
        return name

    def conv(
        self, source: str, out: int, kernel: tuple[int, int], stride: int, density: float, pad: bool
    ) -> str:
        """Append a convolution that fits, of the given density."""
        channels, height, width = self.sizes[source]
        padding = (kernel[0] // 2, kernel[1] // 2) if pad else (0, 0)
        if height + 2 * padding[0] < kernel[0] or width + 2 * padding[1] < kernel[1]:
            kernel, padding = (1, 1), (0, 0)
        weight = self.tensor(out, channels, *kernel, density=density)
        bias = self.tensor(out) if density < 0.9 else None
        operation = g.Conv(channels, out, kernel, (stride, stride), padding, weight, bias, None)
        return self.add(operation, source)

    def case(self, channels: int, names: tuple[str, ...]) -> Case:
        """Return the finished graph with a random picture."""
        picture = torch.randn(1, channels, self.height, self.width)
        return Case(
            g.Graph({"x": channels}, tuple(self.nodes), names), self.weights, {"x": picture}
        )


@st.composite
def cases(draw: st.DrawFn, most: int = 12) -> Case:
    """Draw a graph of a few operations on values of any size."""
    torch.manual_seed(draw(st.integers(0, 1 << 30)))
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 75))
    channels = draw(st.integers(1, 5))
    build = Building(height, width, sizes={"x": (channels, height, width)})
    build.conv("x", 4, (3, 3), 1, 0.5, pad=True)
    for _ in range(draw(st.integers(0, most))):
        _grow(draw, build)
    names = list(build.sizes)
    last = tuple(dict.fromkeys([names[-1], draw(st.sampled_from(names[1:]))]))
    return build.case(channels, last)


def _grow(draw: st.DrawFn, build: Building) -> None:
    names = list(build.sizes)
    source = draw(st.sampled_from(names[-4:]))
    channels, height, width = build.sizes[source]
    alike = [name for name in names if build.sizes[name][1:] == (height, width)]
    same = [name for name in alike if build.sizes[name][0] == channels]
    means = {node.name for node in build.nodes if isinstance(node.operation, g.GlobalMean)}
    pixels = [name for name in names if name in means and build.sizes[name][0] == channels]
    match draw(st.integers(0, 15)):
        case 0 | 1 | 2 | 3 | 4:
            kernel = draw(st.sampled_from([(1, 1), (3, 3), (3, 3), (5, 5), (1, 3), (2, 2)]))
            out = draw(st.sampled_from([1, 2, 3, 4, 8, 9, 12, 36, 130]))
            density = draw(st.sampled_from([0.0, 0.06, 0.25, 0.5, 1.0]))
            stride = draw(st.sampled_from([1, 1, 1, 2, 3]))
            build.conv(source, out, kernel, stride, density, draw(st.booleans()))
        case 5:
            build.add(g.Activation(draw(st.sampled_from(["relu", "sigmoid"]))), source)
        case 6:
            build.add(g.Activation("leaky_relu", draw(st.sampled_from([0.05, 0.2]))), source)
        case 7:
            scale, shift = build.tensor(channels), build.tensor(channels)
            build.add(
                g.Affine(*draw(st.sampled_from([(scale, shift), (scale, None), (None, shift)]))),
                source,
            )
        case 8 | 9:
            other = draw(st.sampled_from(same + pixels))
            build.add(draw(st.sampled_from([g.Add(), g.Multiply()])), source, other)
        case 10:
            count = draw(st.integers(2, 4))
            build.add(g.Concat(), *(draw(st.sampled_from(alike)) for _ in range(count)))
        case 11 if channels > 1:
            start = draw(st.integers(0, channels - 1))
            build.add(g.Channels(start, draw(st.integers(start + 1, channels))), source)
        case 12:
            _reshape(draw, build, source)
        case 13:
            _pool(draw, build, source)
        case 14:
            build.add(g.GlobalMean(), source)
        case _:
            kind = draw(st.sampled_from(["nearest", "bilinear"]))
            if draw(st.booleans()) and height * width < 500:
                factor = draw(st.sampled_from([(2, 2), (3, 3), (1, 2)]))
                build.add(g.Resize(kind, factor), source)
            else:
                build.add(g.Resize(kind, None), source, draw(st.sampled_from(names)))


def _reshape(draw: st.DrawFn, build: Building, source: str) -> None:
    channels, height, width = build.sizes[source]
    for factor in (3, 2):
        if channels % factor**2 == 0 and height * width < 1000:
            build.add(g.PixelShuffle(factor), source)
            return
        if height % factor == 0 and width % factor == 0 and channels < 20:
            build.add(g.PixelUnshuffle(factor), source)
            return


def _pool(draw: st.DrawFn, build: Building, source: str) -> None:
    _, height, width = build.sizes[source]
    size = draw(st.sampled_from([2, 3, 7]))
    if min(height, width) >= size:
        padding = draw(st.integers(0, size // 2))
        kind = draw(st.sampled_from(["max", "mean"]))
        stride = draw(st.sampled_from([1, 2, 3]))
        build.add(g.Pool(kind, (size, size), (stride, stride), (padding, padding)), source)


def with_pictures(case: Case, pictures: dict[str, Tensor]) -> Case:
    """Return the same graph with other pictures."""
    return replace(case, pictures=pictures)
