"""Which layers run together, row by row, so that what one makes the next still finds in the cache."""

from collections.abc import Sequence
from dataclasses import dataclass

from scumble.engines.cpu.geometry import Geometry, Shape
from scumble.engines.cpu.layers import Convolve, Copy, Layer, Rearrange
from scumble.engines.cpu.schedule import Link, Wave

# What a group may keep in a second-level cache; the rest is for weights and sums.
CACHE_SHARE = 0.8
PACES = (4, 2, 1)  # rows of the first layer at a time


@dataclass(frozen=True)
class Group:
    """Layers that run together."""

    layers: tuple[int, ...]
    pace: int
    wave: bool  # row by row; else one layer as a whole


def by_rows(layer: Layer) -> bool:
    """Return whether each row needs only the rows around it."""
    match layer.work:
        case Convolve(conv):
            return conv.stride == (1, 1)
        case Rearrange() | Copy():
            return True
        case _:
            return False


def reads_rows(layer: Layer) -> tuple[int, int]:
    """Return how many rows above and below its own a layer by rows reads of its source."""
    match layer.work:
        case Convolve(conv):
            return conv.padding[0], conv.kernel[0] - 1 - conv.padding[0]
        case _:
            return 0, 0


def wave(members: Sequence[Layer], geometry: Geometry, pace: int) -> Wave:
    """Return the rows of layers that run together."""
    makers = {layer.output: index for index, layer in enumerate(members)}
    rates = [rate(layer) for layer in members]
    rows = [geometry[layer.output].height // r for layer, r in zip(members, rates, strict=True)]
    links: list[tuple[Link, ...]] = []
    for index, layer in enumerate(members):
        found: dict[int, Link] = {}
        above, below = reads_rows(layer)
        for part in layer.source:
            if makers.get(part.value, index) < index:
                found[makers[part.value]] = Link(makers[part.value], above, below)
        for part in layer.operands:
            maker = makers.get(part.value, index)
            if maker < index and maker not in found:
                found[maker] = Link(maker, 0, 0)
        links.append(tuple(found.values()))
    paces = tuple(max(1, pace * count // rows[0]) for count in rows)
    return Wave(tuple(rows), tuple(rates), tuple(links), paces)


def rate(layer: Layer) -> int:
    """Return the rows of the result for each row that a layer works on."""
    return layer.work.shuffle if isinstance(layer.work, Convolve) else 1


def group(layers: Sequence[Layer], geometry: Geometry, cache: int) -> list[Group]:
    """Cut the layers into groups, in order."""
    found: list[Group] = []
    limit = int(cache * CACHE_SHARE)
    start = 0
    while start < len(layers):
        stop, pace = start + 1, PACES[0]
        if by_rows(layers[start]):
            while stop < len(layers) and (better := _extend(layers, geometry, start, stop, limit)):
                stop, pace = stop + 1, better
        else:
            found.append(Group((start,), 0, False))
            start = stop
            continue
        found.append(Group(tuple(range(start, stop)), pace, True))
        start = stop
    return found


def _extend(
    layers: Sequence[Layer], geometry: Geometry, start: int, stop: int, limit: int
) -> int | None:
    """Return the pace at which one layer more still fits; None if it had better begin anew."""
    more, members = layers[stop], layers[start:stop]
    made = {layer.output for layer in members}
    if not by_rows(more) or not more.reads & made or any(l.output == more.output for l in members):
        return None
    if any(step.pixel for step in more.steps):
        pixels = {
            p.value
            for p, s in zip(more.operands, (s for s in more.steps if s.operand), strict=True)
            if s.pixel
        }
        if pixels & made:
            return None
    enlarged = any(rate(layer) > 1 for layer in members)
    for pace in PACES:
        if working_set([*members, more], geometry, pace) <= limit:
            return pace
        if not enlarged and pace < PACES[0]:
            break
    return PACES[-1] if enlarged else None


def working_set(members: Sequence[Layer], geometry: Geometry, pace: int) -> int:
    """Return the bytes that a group touches between two of its steps."""
    plan = wave(members, geometry, pace)
    total = 0
    seen: set[str] = set()
    for index, layer in enumerate(members):
        for name in (*layer.reads, layer.output):
            shape = geometry[name]
            if name not in seen and isinstance(shape, Shape):
                seen.add(name)
                own = plan.pace[index] * (plan.rate[index] if name == layer.output else 1)
                total += (own + 2 * shape.margin.rows) * shape.row_bytes
    return total
