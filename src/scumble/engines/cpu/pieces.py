"""A captured network: pieces that the graph expresses, and pieces between them that it cannot."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from scumble.core.packing import most_kept
from scumble.core.pattern import Pattern
from scumble.engines.cpu.conditions import broken
from scumble.engines.cpu.origins import Origin, tensor_of
from scumble.engines.graph import Affine, Conv, Graph, Node, Operation

GROUP = 32  # of the patterns that convolutions are searched for


@dataclass(frozen=True)
class NativePiece:
    """What the graph expresses, and the tensors that its operations name."""

    graph: Graph
    weights: Mapping[str, Tensor]  # 32-bit floats, each in one piece of memory


@dataclass(frozen=True)
class TorchPiece:
    """What the graph cannot express: PyTorch runs it."""

    name: str
    reason: str  # one sentence, or several parted by semicolons
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[..., tuple[Tensor, ...]]  # into memory of their own, each in one piece


@dataclass(frozen=True)
class Captured:
    """A network as pieces that pass values by name, one picture ``[1, C, H, W]`` at a time."""

    pieces: tuple[NativePiece | TorchPiece, ...]  # none for a network that changes nothing
    input: str  # the name of the picture
    channels: int  # of the picture
    output: str  # the name of the result
    conditions: tuple[str, ...]  # on height and width
    remembered: bool  # captured once before, and found again

    def holds(self, height: int, width: int) -> bool:
        """Return whether the pieces do what the network does, for pictures of this size."""
        return broken(self.conditions, height, width) is None


def native_piece(
    graph: Graph, origins: Mapping[str, Origin], held: Mapping[str, Tensor]
) -> NativePiece:
    """Return a graph with its tensors, and with the patterns that its weights follow."""
    names = [name for node in graph.nodes for name in tensor_names(node.operation)]
    weights = {name: tensor_of(origins[name], held) for name in dict.fromkeys(names)}
    return NativePiece(replace(graph, nodes=tuple(_with_patterns(graph.nodes, weights))), weights)


def tensor_names(operation: Operation) -> Iterator[str]:
    """Yield the names of the tensors of an operation."""
    match operation:
        case Conv(weight=first, bias=second) | Affine(scale=first, shift=second):
            yield from (name for name in (first, second) if name is not None)
        case _:
            pass


def _with_patterns(nodes: tuple[Node, ...], weights: Mapping[str, Tensor]) -> Iterator[Node]:
    for node in nodes:
        conv = node.operation
        if isinstance(conv, Conv):
            node = replace(node, operation=replace(conv, pattern=_pattern(weights[conv.weight])))
        yield node


def _pattern(weight: Tensor) -> Pattern | None:
    """Return the pattern that the zeros of a weight follow; None for a dense one."""
    if weight.shape[1] % GROUP:
        return None
    kept = most_kept(weight, GROUP)
    return Pattern(max(1, kept), GROUP) if kept < GROUP else None
