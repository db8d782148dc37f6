"""Capturing a network that was never captured before."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from scumble.engines.cpu.blueprint import Blueprint, Stored
from scumble.engines.cpu.calls import Scope
from scumble.engines.cpu.exported import Program, program_of
from scumble.engines.cpu.origins import Folded, Held, Origin, PerChannel
from scumble.engines.cpu.pieces import Captured, NativePiece, tensor_names
from scumble.engines.cpu.steps import pieces_of, steps_of
from scumble.engines.graph import Conv, Graph, Node

MOST_STORED = 4096  # numbers of one tensor that are written beside a graph


def capture_afresh(network: nn.Module) -> tuple[Captured, Blueprint | None]:
    """Return a network in pieces, and what to remember of it: nothing, if it is not one piece."""
    program = program_of(network)
    scope = Scope(program)
    steps = steps_of(program, scope)
    pieces = tuple(pieces_of(program, steps, scope))
    captured = Captured(
        pieces,
        program.picture.name,
        int(program.picture.meta["val"].shape[1]),
        scope.resolved(program.output).name,
        program.conditions,
        remembered=False,
    )
    if len(pieces) == 1 and isinstance(pieces[0], NativePiece):
        return captured, _blueprint(program, pieces[0], scope.origins)
    return captured, None


def _blueprint(
    program: Program, piece: NativePiece, origins: Mapping[str, Origin]
) -> Blueprint | None:
    """Return what to remember; nothing, if tensors were computed from weights in unknown ways."""
    constants = {constant.name: constant for constant in program.constants.values()}
    names = [name for node in piece.graph.nodes for name in tensor_names(node.operation)]
    used = {name: origins[name] for name in names}
    stored: dict[str, Stored] = {}
    for held in (held for origin in used.values() for held in _held_in(origin)):
        constant = constants[held.name]
        if constant.kind == "computed" or (
            constant.kind == "stored" and constant.value.numel() > MOST_STORED
        ):
            return None
        if constant.kind == "stored":
            numbers = constant.value.detach().double().flatten().tolist()
            stored[held.name] = Stored(tuple(constant.value.shape), tuple(numbers))
    return Blueprint(_without_patterns(piece.graph), used, stored, program.conditions)


def _held_in(origin: Origin) -> Iterator[Held]:
    match origin:
        case Held():
            yield origin
        case PerChannel(of=Held() as held):
            yield held
        case Folded(weight=weight, bias=bias, mean=mean, variance=variance):
            yield from (one for one in (weight, bias, mean, variance) if one is not None)
        case _:
            pass


def _without_patterns(graph: Graph) -> Graph:
    def plain(node: Node) -> Node:
        conv = node.operation
        return (
            replace(node, operation=replace(conv, pattern=None)) if isinstance(conv, Conv) else node
        )

    return replace(graph, nodes=tuple(map(plain, graph.nodes)))
