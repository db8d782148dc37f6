"""A captured network without its weights: a graph, and where each of its tensors comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from scumble.engines.cpu.conditions import broken
from scumble.engines.cpu.origins import Folded, Held, Origin, PerChannel
from scumble.engines.cpu.pieces import Captured, native_piece, tensor_names
from scumble.engines.graph import (
    Add,
    Affine,
    Channels,
    Concat,
    Conv,
    Graph,
    Multiply,
    Node,
    Operation,
    PixelShuffle,
    PixelUnshuffle,
    Pool,
    Resize,
    size_after,
)


@dataclass(frozen=True)
class Stored:
    """A small tensor that stands in the network's code."""

    shape: tuple[int, ...]
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Blueprint:
    """What of a captured network stays the same when its weights change."""

    graph: Graph  # of all its pieces, without patterns
    origins: Mapping[str, Origin]
    stored: Mapping[str, Stored]
    conditions: tuple[str, ...]

    def with_weights_of(self, network: nn.Module) -> Captured:
        """Return the captured network with the weights that a network has now."""
        held = dict(held_by(network))
        for name, stored in self.stored.items():
            held[name] = torch.tensor(stored.numbers, dtype=torch.float64).reshape(stored.shape)
        ((picture, channels),) = self.graph.inputs.items()
        piece = native_piece(self.graph, self.origins, held)
        (output,) = self.graph.outputs
        return Captured((piece,), picture, channels, output, self.conditions, remembered=True)


def held_by(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every parameter and buffer of a network, under each of its names."""
    yield from network.named_parameters(remove_duplicate=False)
    yield from network.named_buffers(remove_duplicate=False)


def check(blueprint: Blueprint, network: nn.Module) -> None:
    """Refuse, with a ``ValueError``, what cannot be a blueprint of this network."""
    graph, origins = blueprint.graph, blueprint.origins
    _require(len(graph.inputs) == len(graph.outputs) == 1, "one input, one output")
    _check_origins(blueprint, {name: tensor.numel() for name, tensor in held_by(network)})
    for condition in blueprint.conditions:
        broken([condition], 64, 64)
    channels = dict(graph.inputs)
    _require(all(count > 0 for count in channels.values()), "inputs with channels")
    for node in graph.nodes:
        _require(channels.keys() >= {*node.inputs}, "nodes after what they need")
        _require(node.name not in channels, "every value once")
        _require(origins.keys() >= {*tensor_names(node.operation)}, "an origin for every tensor")
        given = [channels[name] for name in node.inputs]
        _check_node(node, given, origins)
        channels[node.name] = size_after(node.operation, [(count, 1, 1) for count in given])[0]
    _require(channels.keys() >= {*graph.outputs}, "an output that is computed")


def _require(fact: bool, needed: str) -> None:
    if not fact:
        raise ValueError(f"a blueprint needs {needed}")


def _check_origins(blueprint: Blueprint, numbers: dict[str, int]) -> None:
    for name, stored in blueprint.stored.items():
        numbers[name] = len(stored.numbers)
        _require(prod(stored.shape) == len(stored.numbers), "as many numbers as a shape holds")
    for origin in blueprint.origins.values():
        match origin:
            case PerChannel(of=of, channels=channels):
                held = [of] if isinstance(of, Held) else []
            case Folded(channels=channels):
                several = (origin.weight, origin.bias, origin.mean, origin.variance)
                held = [one for one in several if one is not None]
            case Held():
                held, channels = [origin], None
        for one in held:
            _require(one.name in numbers, "tensors that the network has")
            _require(all(side > 0 for side in one.shape), "shapes of a positive size")
            _require(numbers[one.name] == prod(one.shape), "tensors of the network's shapes")
            _require(channels is None or prod(one.shape) in (1, channels), "a number per channel")


def _check_node(node: Node, given: list[int], origins: Mapping[str, Origin]) -> None:
    """Check one operation on values of so many channels."""
    operation = node.operation
    two = isinstance(operation, Add | Multiply | Resize) and _factor(operation) is None
    needed = len(given) if isinstance(operation, Concat) else 2 if two else 1
    _require(len(given) == needed > 0, "as many inputs as an operation takes")
    match operation:
        case Conv():
            shape = (operation.out_channels, operation.in_channels, *operation.kernel)
            _require(given == [operation.in_channels], "convolutions of their inputs")
            _require(_shape(origins[operation.weight]) == shape, "weights of their shape")
            bias = None if operation.bias is None else _shape(origins[operation.bias])
            _require(bias in (None, shape[:1]), "a bias per channel")
            _require(min(operation.stride) > 0 <= min(operation.padding), "windows that move")
        case Affine():
            counts = {_count(origins[name]) for name in tensor_names(operation)}
            _require(counts <= {*given}, "a factor per channel")
        case Add() | Multiply():
            _require(given[0] == given[1], "sums and products of as many channels")
        case Channels(start, stop):
            _require(0 <= start < stop <= given[0], "channels that exist")
        case PixelShuffle(factor):
            _require(factor > 0 and given[0] % factor**2 == 0, "whole pixels")
        case PixelUnshuffle(factor):
            _require(factor > 0, "whole pixels")
        case Pool(kernel=kernel, stride=stride, padding=padding):
            fits = all(0 <= 2 * pad <= side for side, pad in zip(kernel, padding, strict=True))
            _require(fits and min(kernel) > 0 and min(stride) > 0, "windows that move")
        case Resize(factor=factor):
            _require(factor is None or min(factor) > 0, "factors of at least 1")
        case _:
            pass


def _factor(operation: Operation) -> tuple[int, int] | None:
    return operation.factor if isinstance(operation, Resize) else None


def _shape(origin: Origin) -> tuple[int, ...] | None:
    return origin.shape if isinstance(origin, Held) else None


def _count(origin: Origin) -> int | None:
    return None if isinstance(origin, Held) else origin.channels
