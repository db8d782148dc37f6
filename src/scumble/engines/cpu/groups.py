"""Which layers run together, row by row, so that the next finds in the cache what one makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scumble.engines.cpu.geometry import Geometry, Shape
from scumble.engines.cpu.layers import Convolve, Copy, Layer, Rearrange
from scumble.engines.cpu.schedule import Link, Wave

# What a group may keep in a second-level cache; the rest is for weights and sums.
CACHE_SHARE = 0.7
PACES = (4, 2, 1)  # rows of the first layer at a time
MOST_LAYERS = 8

# Rough speeds of a core, by which groups are compared.
_BYTES_A_SECOND = 1.2e10  # between memory and the second-level cache
_FLOPS = 8e10
_STEP_SECONDS = 2e-6  # to start a layer's next rows
_LOW_TILES = {1: 1.25, 2: 1.1, 3: 1.05}  # how much longer sums take in tiles of few rows


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


@dataclass(frozen=True)
class Costs:
    """What is known of layers when they are put into groups."""

    layers: Sequence[Layer]
    geometry: Geometry
    flops: Sequence[float]  # of every layer
    cache: int  # bytes of a core's second-level cache

    def __post_init__(self) -> None:
        last: dict[str, int] = {}
        for index, layer in enumerate(self.layers):
            last.update(dict.fromkeys(layer.reads, index))
        object.__setattr__(self, "last", last)

    last: Mapping[str, int] = field(init=False)

    def size(self, name: str) -> int:
        """Return the bytes of a value as a whole."""
        shape = self.geometry[name]
        return shape.height * shape.row_bytes if isinstance(shape, Shape) else 0

    def seconds(self, start: int, stop: int, pace: int) -> float:
        """Return about how long a group takes on one thread, beyond its arithmetic at best."""
        members = self.layers[start:stop]
        plan = wave(members, self.geometry, pace)
        made = {layer.output for layer in members}
        read = {name for layer in members for name in layer.reads} - made
        kept = {name for name in made if self.last.get(name, stop) >= stop}
        over = {
            n
            for n in read
            if self.last[n] < stop and any(self.geometry[n] == self.geometry[k] for k in kept)
        }
        moved = sum(map(self.size, read)) + sum(map(self.size, kept)) * 2
        moved -= sum(map(self.size, list(over)[: len(kept)]))  # written in place: no need to fetch
        held = working_set(members, plan, self.geometry)
        if held > self.cache * CACHE_SHARE:
            inside = sum(self.size(name) for name in made - kept)
            moved += 2 * inside * (1 - self.cache * CACHE_SHARE / held)
        slow = sum(
            self.flops[index] * (_LOW_TILES.get(rows, 1.0) - 1)
            for index, rows in zip(range(start, stop), plan.pace, strict=True)
        )
        steps = len(members) * plan.rows[0] / pace
        return moved / _BYTES_A_SECOND + slow / _FLOPS + steps * _STEP_SECONDS


def group(costs: Costs) -> list[Group]:
    """Cut the layers into groups, in order, so that the whole takes least time."""
    layers = costs.layers
    best: list[tuple[float, Group | None]] = [(0.0, None)]
    for stop in range(1, len(layers) + 1):
        found: list[tuple[float, Group]] = []
        for start in range(stop - 1, max(-1, stop - 1 - MOST_LAYERS), -1):
            indices = tuple(range(start, stop))
            if not by_rows(layers[start]):
                if start == stop - 1:
                    found.append((best[start][0], Group(indices, 0, False)))
                break
            if not _may_join(layers, start, stop):
                continue  # it may with one more layer before it
            for pace in PACES:
                seconds = costs.seconds(start, stop, pace)
                found.append((best[start][0] + seconds, Group(indices, pace, True)))
        best.append(min(found, key=lambda one: one[0]))
    chosen: list[Group] = []
    at = len(layers)
    while at:
        one = best[at][1]
        assert one is not None
        chosen.append(one)
        at = one.layers[0]
    return chosen[::-1]


def _may_join(layers: Sequence[Layer], start: int, stop: int) -> bool:
    """Return whether layers ``start`` to ``stop`` can run row by row together.

    Each must read what one before it makes; none may read one pixel that another one makes, or
    write what another one writes.
    """
    members = layers[start:stop]
    made = {members[0].output}
    for more in members[1:]:
        if not by_rows(more) or not more.reads & made or more.output in made:
            return False
        if pixels(more) & made:
            return False
        made.add(more.output)
    return True


def pixels(layer: Layer) -> set[str]:
    """Return the values of which a layer reads one pixel."""
    steps = [step for step in layer.steps if step.operand]
    return {part.value for part, step in zip(layer.operands, steps, strict=True) if step.pixel}


def working_set(members: Sequence[Layer], plan: Wave, geometry: Geometry) -> int:
    """Return the bytes that a group touches between two of its steps."""
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
