"""A network as torch.export sees it: every operator it runs, for pictures of any size."""

import io
import logging
import re
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg

from scumble.engines.cpu.conditions import broken
from scumble.errors import EngineError

# Heights and widths to try, so that networks run that need a certain size, or multiples of one.
# No two sides are alike: torch would take what is the same here for the same always.
SIZES = ((192, 320), (256, 384), (112, 168))

# What these make of a tensor has the same numbers in the same order.
COPIES = {"alias", "clone", "contiguous", "detach", "detach_", "lift_fresh_copy"}
VIEWS = {"_unsafe_view", "flatten", "reshape", "squeeze", "unflatten", "unsqueeze", "view"}
KEEP_ORDER = COPIES | VIEWS

_SIDE = re.compile(r"L(?:\['\w+'\]|\[\d+\])+\.size\(\)\[(\d+)\]")
_SIDES = {"2": "height", "3": "width"}


@dataclass(frozen=True)
class Constant:
    """What comes out the same for every picture."""

    value: Any
    kind: Literal["held", "stored", "computed"]  # by the network; in its code; from what it holds
    name: str  # the path of what the network holds, else one of its own


@dataclass(frozen=True)
class Program:
    """Calls of operators in the order in which they run."""

    network: str  # its class
    picture: fx.Node
    output: fx.Node
    calls: tuple[fx.Node, ...]  # those that the output needs, and that depend on the picture
    constants: Mapping[fx.Node, Constant]
    conditions: tuple[str, ...]  # on height and width, for all this to be right


def program_of(network: nn.Module) -> Program:
    """Return what a network runs when it is evaluated on one picture of any size."""
    name = type(network).__name__
    reasons: list[str] = []
    for channels in dict.fromkeys((channels_of(network), 3)):
        for size in SIZES:
            try:
                exported = _export(network, torch.zeros(1, channels, *size))
            except GuardOnDataDependentSymNode as error:
                raise EngineError(
                    f"{name} cannot be captured: what it runs depends on the numbers in the picture"
                ) from error
            except Exception as error:  # whatever a network and its tracing may raise
                reasons.append(str(error).strip().partition("\n")[0] or type(error).__name__)
                continue
            return _read(exported, name, size)
    raise EngineError(f"{name} cannot be captured: {reasons[0]}")


def channels_of(network: nn.Module) -> int:
    """Return how many channels the pictures have that a network takes, as far as one can tell."""
    convs = (module for module in network.modules() if isinstance(module, nn.Conv2d))
    first = next(convs, None)
    return 3 if first is None else first.in_channels


def _export(network: nn.Module, picture: Tensor) -> ExportedProgram:
    sides = {2: Dim.AUTO, 3: Dim.AUTO}
    # A side of one pixel is a side like any other: nothing is concluded from its not being 1.
    options: Any = _config
    any_side = options.patch(backed_size_oblivious=True)
    with _quietly(), any_side, torch.inference_mode(False), torch.no_grad():
        exported = export(network, (picture,), dynamic_shapes=(sides,), strict=False)
        if not any(_changes_something(node) for node in exported.graph.nodes):
            return exported
        guards = exported._guards_code  # pyright: ignore[reportPrivateUsage]
        exported = exported.run_decompositions({})  # pyright: ignore[reportUnknownMemberType]
        exported._guards_code += guards  # pyright: ignore[reportPrivateUsage]
        return exported


def _changes_something(node: fx.Node) -> bool:
    """Return whether a call may change a tensor in place."""
    if is_operator(node):
        return schema_of(node).is_mutable and operator_name(node) != "detach_"
    return isinstance(node.target, HigherOrderOperator)


@contextmanager
def _quietly() -> Generator[None]:
    """Keep to ourselves what torch says of a network: we report it, and warn of none of its own."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _read(exported: ExportedProgram, name: str, size: tuple[int, int]) -> Program:
    signature = exported.graph_signature
    if signature.buffers_to_mutate:
        buffer = next(iter(signature.buffers_to_mutate.values()))
        raise EngineError(f"{name} changes its buffer {buffer} while it runs; no engine would")
    nodes = {node.name: node for node in exported.graph.nodes}
    outputs = [node for node in signature.user_outputs if isinstance(node, str)]
    if len(outputs) != 1 or not exported.call_spec.out_spec.is_leaf():  # pyright: ignore
        raise EngineError(f"{name} does not return one tensor; an engine needs a picture")
    picture, output = nodes[signature.user_inputs[0]], nodes[outputs[0]]  # pyright: ignore
    conditions = _conditions(exported, picture, name)
    _refuse_fixed_sizes(conditions, name, size)
    needed = _needed(output)
    constants = _constants(exported, [node for node in nodes.values() if node in needed])
    if output in constants:
        raise EngineError(f"{name} returns the same whatever the picture")
    calls = [node for node in nodes.values() if node in needed and node not in constants]
    return Program(
        name,
        picture,
        output,
        tuple(node for node in calls if node is not picture),
        constants,
        conditions,
    )


def _conditions(exported: ExportedProgram, picture: fx.Node, name: str) -> tuple[str, ...]:
    """Return what height and width must meet for the network to run the same operators."""
    found: list[str] = []
    ranges: dict[Any, Any] = exported.range_constraints  # pyright: ignore
    sides = picture.meta["val"].shape[2:]
    for side, symbol in zip(_SIDES.values(), sides, strict=True):
        limits = None if isinstance(symbol, int) else ranges.get(symbol.node.expr)
        if limits is None:
            raise _size_matters(name, f"{side} == {symbol}")
        found.append(f"{side} >= {max(1, int(limits.lower))}")
        if str(limits.upper) != "int_oo":  # its infinity
            found.append(f"{side} <= {int(limits.upper)}")
    for guard in exported._guards_code:  # pyright: ignore[reportPrivateUsage]
        found.append(_SIDE.sub(lambda match: _SIDES.get(match[1], match[0]), guard))
    return tuple(dict.fromkeys(found))


def _refuse_fixed_sizes(conditions: tuple[str, ...], name: str, size: tuple[int, int]) -> None:
    """Refuse a network that was captured for this size and no others."""
    height, width = size
    others = ((2 * height, 3 * width), (height // 2, width // 4), (2 * height, 2 * width))
    try:
        for condition in conditions:  # each by itself, so that all of them are read
            broken([condition], height, width)
        unmet = [broken(conditions, *other) for other in others]
    except EngineError as error:
        raise _size_matters(name, str(error)) from error
    if None not in unmet:
        raise _size_matters(name, str(unmet[0]))


def _size_matters(name: str, condition: str) -> EngineError:
    return EngineError(
        f"{name} depends on the size of the picture in a way that cannot be followed: "
        f"it can be captured only where {condition}"
    )


def _needed(output: fx.Node) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    waiting = [output]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return needed


def _constants(exported: ExportedProgram, nodes: list[fx.Node]) -> dict[fx.Node, Constant]:
    """Return what does not depend on the picture; it is computed here, once."""
    inputs = {spec.arg.name: spec for spec in exported.graph_signature.input_specs}
    tensors = {**exported.state_dict, **exported.constants}
    found: dict[fx.Node, Constant] = {}
    for node in nodes:
        if node.op == "placeholder" and inputs[node.name].kind != InputKind.USER_INPUT:
            spec = inputs[node.name]
            kind = "stored" if spec.kind == InputKind.CONSTANT_TENSOR else "held"
            found[node] = Constant(tensors[str(spec.target)], kind, str(spec.target))
        elif node.op == "get_attr":
            value = getattr(exported.graph_module, str(node.target))
            found[node] = Constant(value, "computed", node.name)
        elif node.op == "call_function" and not _random(node):
            given = [found.get(one) for one in node.all_input_nodes]
            if all(one is not None for one in given):
                found[node] = _computed(node, [one for one in given if one], found)
    return found


def _random(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _computed(node: fx.Node, given: list[Constant], known: Mapping[fx.Node, Constant]) -> Constant:
    """Return what a call makes of constants."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda one: known[one].value)
    assert callable(node.target)
    with torch.no_grad():
        value = node.target(*args, **kwargs)
    if len(given) == 1 and operator_name(node) in KEEP_ORDER:
        return Constant(value, given[0].kind, given[0].name)
    kind = "stored" if all(one.kind == "stored" for one in given) else "computed"
    return Constant(value, kind, f"{kind}:{node.name}")


def operator_name(node: fx.Node) -> str:
    """Return the short name of an operator of PyTorch's, such as ``conv2d``, else nothing."""
    space, _, name = schema_of(node).name.partition("::") if is_operator(node) else ("", "", "")
    return name if space == "aten" else ""


def is_operator(node: fx.Node) -> bool:
    """Return whether a call is one of a PyTorch operator."""
    return isinstance(node.target, OpOverload)


def schema_of(node: fx.Node) -> Any:
    """Return what PyTorch knows of an operator's arguments."""
    target: Any = node.target
    return target._schema
