"""Finding out what a resize goes by: a factor, or the size of another value."""

from typing import Any, Literal

from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from scumble.engines.cpu.calls import Call, Unsupported
from scumble.engines.graph import Node, Resize

LARGEST_FACTOR = 16  # that is looked for where a size is given


def resize(call: Call, kind: Literal["nearest", "bilinear"]) -> list[Node]:
    """Translate an upsampling by a whole factor, or to the size of another value."""
    key = "input" if "input" in call.given else "self"
    source = call.source(key)
    if call.get("align_corners", False):
        raise Unsupported(f"{call.operator} with aligned corners has no counterpart in the graph")
    factor = _given_factor(call)
    if factor is None:
        factor = _factor_between(call[key].meta["val"].shape[2:], call.meta.shape[2:])
    if factor is not None:
        return [call.node(Resize(kind, factor), source)]
    like = _as_large(call)
    if like is None:
        raise Unsupported(f"{call.operator} resizes to a size that no other value has")
    return [call.node(Resize(kind, None), source, like.name)]


def _given_factor(call: Call) -> tuple[int, int] | None:
    """Return the factors that a resize was asked for, if they are whole."""
    scales = call.get("scale_factors", None) or [
        call.get("scales_h", None),
        call.get("scales_w", None),
    ]
    if any(scale is None for scale in scales):
        return None
    if any(not isinstance(scale, int | float) or scale < 1 or scale % 1 for scale in scales):
        written = " x ".join(str(scale) for scale in scales)
        raise Unsupported(f"{call.operator} resizes by {written}; the graph knows whole factors")
    return int(scales[0]), int(scales[1])


def _factor_between(before: Any, after: Any) -> tuple[int, int] | None:
    """Return the whole factors by which a size has grown, whatever the picture's size."""
    factors = [
        next((k for k in range(1, LARGEST_FACTOR + 1) if statically_known_true(b == k * a)), None)
        for a, b in zip(before, after, strict=True)
    ]
    down, across = factors
    return None if down is None or across is None else (down, across)


def _as_large(call: Call) -> fx.Node | None:
    """Return the last value before a call that is as large as its result for every picture."""
    for value in reversed(call.scope.pictures):
        sides = zip(value.meta["val"].shape[2:], call.meta.shape[2:], strict=True)
        if all(statically_known_true(one == other) for one, other in sides):
            return value
    return None
