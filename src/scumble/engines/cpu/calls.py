"""One call of an operator of PyTorch, as the table of translations sees it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from scumble.engines.cpu.exported import KEEP_ORDER, Constant, Program, operator_name, schema_of
from scumble.engines.cpu.origins import Held, Origin
from scumble.engines.graph import Node, Operation

# These give back what they take, if type and shape stay as they are.
PASSING = KEEP_ORDER | {"_to_copy", "expand", "expand_as", "identity", "slice", "to", "type_as"}
DROPPING = {"alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout"}


class Unsupported(Exception):  # noqa: N818 (it ends a translation, not a program)
    """Why the graph cannot say what a call does, in one sentence."""


@dataclass
class Scope:
    """What is known while the calls of a program are translated, one after the other."""

    program: Program
    same: dict[fx.Node, fx.Node] = field(default_factory=dict[fx.Node, fx.Node])
    native: set[fx.Node] = field(default_factory=set[fx.Node])  # values that the graph gives
    pictures: list[fx.Node] = field(default_factory=list[fx.Node])  # values with all pixels so far
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])

    def resolved(self, node: fx.Node) -> fx.Node:
        """Return the value that a node passes on, or the node itself."""
        return self.same.get(node, node)


class Call:
    """An operator, its arguments by name, and what they stand for."""

    def __init__(self, node: fx.Node, scope: Scope) -> None:
        self.fx, self.scope = node, scope
        self.name, self.operator = node.name, str(node.target)
        self.short = operator_name(node)
        self.meta: Any = node.meta.get("val")
        self.given: dict[str, Any] = {}
        if self.short:
            arguments = schema_of(node).arguments
            self.given = {one.name: one.default_value for one in arguments}
            names = [one.name for one in arguments]
            self.given |= dict(zip(names, node.args, strict=False)) | node.kwargs
        elif getattr(node.target, "__name__", "") == "getitem":
            self.short = "getitem"
            self.given = {"self": node.args[0], "item": node.args[1]}

    def __getitem__(self, key: str) -> Any:
        """Return an argument as it was given, or its default."""
        return self.given[key]

    def get(self, key: str, otherwise: object) -> Any:
        """Return an argument, or something else for an operator that has no such argument."""
        return self.given.get(key, otherwise)

    @property
    def item(self) -> int:
        """Return which of several results is taken."""
        return int(self["item"])

    @property
    def channels(self) -> int:
        """Return how many channels the result has."""
        return _shape(self.meta)[1]

    def channels_of(self, key: str) -> int:
        """Return how many channels a given picture has."""
        self.source(key)
        return _shape(self[key].meta["val"])[1]

    def source(self, key: str) -> str:
        """Return the name of a given picture."""
        return self._source(self[key])

    def sources(self, key: str) -> list[str]:
        """Return the names of several given pictures."""
        return [self._source(one) for one in self[key]]

    def _source(self, given: object) -> str:
        if not isinstance(given, fx.Node) or given in self.scope.program.constants:
            raise self.no_counterpart()
        if not is_picture(given.meta.get("val")):
            raise Unsupported(f"{self.operator} takes something other than one picture of floats")
        return self.scope.resolved(given).name

    def constant(self, key: str) -> Constant | None:
        """Return an argument that is the same for every picture; None for any other."""
        given = self[key]
        found = self.scope.program.constants.get(given) if isinstance(given, fx.Node) else None
        return found if found and isinstance(found.value, Tensor) else None

    def is_value(self, key: str) -> bool:
        """Return whether an argument depends on the picture."""
        given = self[key]
        return isinstance(given, fx.Node) and given not in self.scope.program.constants

    def call_behind(self, position: int) -> "Call":
        """Return the call that made an argument."""
        made = self.fx.args[position]
        if not isinstance(made, fx.Node):
            raise self.no_counterpart()
        return Call(made, self.scope)

    def node(self, operation: Operation, *sources: str, part: str = "") -> Node:
        """Return a node by the name of this call, or by one of its own for a part of it."""
        return Node(f"{self.name}:{part}" if part else self.name, operation, sources)

    def tensor(self, origin: Origin, part: str = "") -> str:
        """Return the name by which an operation knows a tensor."""
        name = origin.name if isinstance(origin, Held) else f"{self.name}:{part}"
        self.scope.origins[name] = origin
        return name

    def place(self, key: str) -> str:
        """Return the module whose weight an argument is, else the call's own name."""
        constant = self.constant(key)
        if constant is None or constant.kind != "held":
            return self.name
        return constant.name.rpartition(".")[0] or self.name

    def no_counterpart(self) -> Unsupported:
        """Return the plainest reason."""
        return Unsupported(f"{self.operator} has no counterpart in the graph")

    def check_gives_picture(self) -> None:
        """Refuse results that are not pictures."""
        if not is_picture(_first(self.meta)):
            raise Unsupported(f"{self.operator} gives something other than one picture of floats")

    def check_alike(self, first: str, second: str) -> None:
        """Refuse two pictures unless they have as many channels and pixels, or only one pixel."""
        for key in (first, second):
            self.source(key)
        one, other = (_shape(self[key].meta["val"]) for key in (first, second))
        if one[1] != other[1]:
            raise Unsupported(f"{self.operator} combines {one[1]} with {other[1]} channels")
        if any(_is_one(shape[2]) != _is_one(shape[3]) for shape in (one, other)):
            raise Unsupported(f"{self.operator} spreads one row or one column over a picture")


def passes_on(call: Call) -> fx.Node | None:
    """Return the value that a call gives back as it is; None for a call that does more."""
    if call.short not in PASSING | DROPPING or call.get("train", False):
        return None
    given = call.fx.args[0]
    if not isinstance(given, fx.Node):
        return None
    before, after = given.meta.get("val"), call.meta
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return None
    as_before = before.dtype == after.dtype and before.device == after.device
    return given if as_before and [*map(str, before.shape)] == [*map(str, after.shape)] else None


def is_picture(value: object) -> bool:
    """Return whether a value is one picture of 32-bit floats."""
    if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.dim() != 4:
        return False
    sides: Any = value.shape  # numbers, or symbols for those that depend on the picture's size
    return isinstance(sides[0], int) and isinstance(sides[1], int) and sides[0] == 1


def _is_one(side: object) -> bool:
    """Return whether a side is one pixel long for every picture; to compare a symbol asks more."""
    return isinstance(side, int) and side == 1


def _shape(value: Any) -> Any:
    return _first(value).shape


def _first(value: Any) -> Any:
    return value if isinstance(value, Tensor) else value[0]
