"""What a graph means, in plain PyTorch: slow, and the truth that kernels are compared with."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from scumble.engines.graph import (
    Activation,
    Add,
    Affine,
    Channels,
    Concat,
    Conv,
    GlobalMean,
    Graph,
    Multiply,
    Operation,
    PixelShuffle,
    PixelUnshuffle,
    Pool,
    Resize,
)


def interpret(
    graph: Graph, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return every output of a graph, by name."""
    values = dict(inputs)
    for node in graph.nodes:
        given = [values[name] for name in node.inputs]
        values[node.name] = compute(node.operation, weights, given)
    return {name: values[name] for name in graph.outputs}


def compute(operation: Operation, weights: Mapping[str, Tensor], given: list[Tensor]) -> Tensor:
    """Return what one operation makes of its inputs."""
    x = given[0]
    match operation:
        case Conv(stride=stride, padding=padding, weight=weight, bias=bias):
            shift = None if bias is None else weights[bias]
            return F.conv2d(x, weights[weight], shift, stride, padding)
        case Activation("relu"):
            return F.relu(x)
        case Activation("leaky_relu", slope):
            return F.leaky_relu(x, slope)
        case Activation():
            return torch.sigmoid(x)
        case Affine(scale, shift):
            scaled = x if scale is None else x * weights[scale].view(-1, 1, 1)
            return scaled if shift is None else scaled + weights[shift].view(-1, 1, 1)
        case Add():
            return x + given[1]
        case Multiply():
            return x * given[1]
        case Concat():
            return torch.cat(given, 1)
        case Channels(start, stop):
            return x[:, start:stop]
        case PixelShuffle(factor):
            return F.pixel_shuffle(x, factor)
        case PixelUnshuffle(factor):
            return F.pixel_unshuffle(x, factor)
        case Pool("max", kernel, stride, padding):
            return F.max_pool2d(x, kernel, stride, padding)
        case Pool(_, kernel, stride, padding):
            return F.avg_pool2d(x, kernel, stride, padding)
        case GlobalMean():
            return x.mean((2, 3), keepdim=True)
        case Resize(kind, factor):
            down, across = factor or (1, 1)
            size = (x.shape[2] * down, x.shape[3] * across) if factor else given[1].shape[2:]
            aligned = None if kind == "nearest" else False
            return F.interpolate(x, tuple(size), mode=kind, align_corners=aligned)
