"""Conditions on height and width, as text: where what was captured of a network is right.

The text is Python, such as ``height % 8 == 0``, and may come from a file: it is never evaluated as
Python, but read here, and whatever is not arithmetic on the two sizes is refused.
"""

import ast
import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from scumble.errors import EngineError

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: one / other,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
}
_LARGEST_POWER = 4


def broken(conditions: Sequence[str], height: int, width: int) -> str | None:
    """Return the first condition that a size does not meet; None if it meets all."""
    sizes = {"height": height, "width": width}
    for condition in conditions:
        try:
            met = bool(_value(_parsed(condition), sizes))
        except ArithmeticError:  # a division by nothing: of a picture smaller than its parts
            met = False
        if not met:
            return condition
    return None


@cache
def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(condition, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise _not_understood(condition) from error


def _value(node: ast.expr, sizes: dict[str, int]) -> Number:
    """Return what an expression comes to."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, sizes)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if (
            0 <= power <= _LARGEST_POWER
        ):
            return _value(left, sizes) ** power
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.BoolOp(op=op, values=values):
            every = all if isinstance(op, ast.And) else any
            return every(_value(value, sizes) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=others) if {*map(type, ops)} <= {
            *_COMPARE
        }:
            sides = pairwise(_value(side, sizes) for side in (left, *others))
            pairs = zip(ops, sides, strict=True)
            return all(_COMPARE[type(op)](one, other) for op, (one, other) in pairs)
        case ast.Call(func=function, args=[_, *_], keywords=[]) if ast.unparse(function) in _CALLS:
            return _CALLS[ast.unparse(function)](*(_value(value, sizes) for value in node.args))
        case _:
            raise _not_understood(ast.unparse(node))


def _not_understood(condition: str) -> EngineError:
    return EngineError(f"a condition is arithmetic on height and width, got {condition!r}")
