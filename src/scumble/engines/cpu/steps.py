"""From the calls of a program to pieces: translate each call, then group what runs alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from scumble.engines.cpu.calls import Call, Scope, Unsupported, is_picture, passes_on
from scumble.engines.cpu.exported import Program
from scumble.engines.cpu.operations import translate
from scumble.engines.cpu.pieces import NativePiece, TorchPiece, native_piece
from scumble.engines.cpu.torch_run import TorchRun, is_number, values_behind
from scumble.engines.graph import Graph, Node


@dataclass(frozen=True)
class Step:
    """One value and how it is made: by nodes of the graph, else by a call in PyTorch."""

    name: str
    needs: tuple[str, ...]
    nodes: tuple[Node, ...]
    call: fx.Node
    reason: str | None  # why the graph does not know the call


def steps_of(program: Program, scope: Scope) -> list[Step]:
    """Return the steps that the result of a program needs, in their order."""
    scope.native.add(program.picture)
    scope.pictures.append(program.picture)
    steps = {step.name: step for call in program.calls if (step := _step(call, scope))}
    needed: set[str] = set()
    waiting = [scope.resolved(program.output).name]
    while waiting:
        name = waiting.pop()
        if name in steps and name not in needed:
            needed.add(name)
            waiting.extend(steps[name].needs)
    return [step for step in steps.values() if step.name in needed]


def _step(node: fx.Node, scope: Scope) -> Step | None:
    """Translate one call; return nothing for one that computes only numbers or nothing new."""
    if is_number(node):
        return None
    call = Call(node, scope)
    passed = passes_on(call)
    # What PyTorch has made may be laid out so that the next call needs, say, a `contiguous`.
    if passed is not None and scope.resolved(passed) in scope.native:
        scope.same[node] = scope.resolved(passed)
        return None
    nodes: list[Node] = []
    reason = None
    try:
        nodes = translate(call) if passed is None else []
    except Unsupported as unsupported:
        # One result of several: why not is said of the call that has several.
        reason = None if call.short == "getitem" else str(unsupported)
    if nodes:
        scope.native.add(node)
        made = {one.name for one in nodes}
        needs = [name for one in nodes for name in one.inputs if name not in made]
    else:
        needs = [value.name for value in values_behind(node, scope)]
    if is_picture(node.meta["val"]):
        scope.pictures.append(node)
    return Step(node.name, tuple(dict.fromkeys(needs)), tuple(nodes), node, reason)


def pieces_of(
    program: Program, steps: Sequence[Step], scope: Scope
) -> Iterator[NativePiece | TorchPiece]:
    """Yield the pieces that the steps make up, in the order in which they run."""
    held = {constant.name: constant.value for constant in program.constants.values()}
    channels = {step.name: _channels(step.call) for step in steps}
    channels[program.picture.name] = _channels(program.picture)
    groups = [*_groups(steps, program.picture.name)]
    for place, group in enumerate(groups):
        made = {step.name for step in group}
        later = {name for other in groups[place + 1 :] for step in other for name in step.needs}
        later.add(scope.resolved(program.output).name)
        needs = dict.fromkeys(name for step in group for name in step.needs)
        inputs = tuple(name for name in needs if name not in made)
        outputs = tuple(step.name for step in group if step.name in later)
        if group[0].nodes:
            nodes = tuple(node for step in group for node in step.nodes)
            graph = Graph({name: channels[name] for name in inputs}, nodes, outputs)
            yield native_piece(graph, scope.origins, held)
        else:
            reasons = dict.fromkeys(step.reason for step in group if step.reason)
            run = TorchRun([step.call for step in group], scope, inputs, outputs)
            yield TorchPiece(group[0].name, "; ".join(reasons), inputs, outputs, run)


def _groups(steps: Sequence[Step], picture: str) -> Iterator[list[Step]]:
    """Yield steps that run in one piece: as many of one kind as can, then as many of the other."""
    ready, waiting = {picture}, [*steps]
    native = True
    while waiting:
        group: list[Step] = []
        rest: list[Step] = []
        for step in waiting:  # in an order in which every step comes after what it needs
            fits = bool(step.nodes) == native and ready.issuperset(step.needs)
            (group if fits else rest).append(step)
            if fits:
                ready.add(step.name)
        assert group or waiting == [*steps], "a step waits for what nobody makes"
        if group:
            yield group
        native, waiting = not native, rest


def _channels(node: fx.Node) -> int:
    """Return how many channels a value has; 0 for one that is no picture."""
    value: Any = node.meta["val"]
    return int(value.shape[1]) if is_picture(value) else 0
