"""Which memory every value has: shared by values that do not live at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scumble.engines.cpu.geometry import Geometry, Plane, Shape
from scumble.engines.cpu.groups import Group, reads_rows, wave
from scumble.engines.cpu.layer_code import Outside, Word
from scumble.engines.cpu.layers import Layer, Rearrange
from scumble.engines.cpu.memory import Arena
from scumble.engines.cpu.schedule import Wave
from scumble.engines.cpu.storage import Stored


@dataclass(eq=False)
class Place:
    """Memory for one value after the other."""

    arena: Arena
    kinds: set[tuple[Shape, float]] = field(default_factory=set)  # and what stands around them


class Placement:
    """Decides where values are, group by group."""

    def __init__(
        self, layers: Sequence[Layer], groups: Sequence[Group], geometry: Geometry
    ) -> None:
        self.layers, self.geometry = layers, geometry
        self.group_of = {index: at for at, group in enumerate(groups) for index in group.layers}
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        for index, layer in enumerate(layers):
            at = self.group_of[index]
            self.first.setdefault(layer.output, at)
            for name in (layer.output, *layer.reads):
                self.last[name] = at
        self.in_place: dict[str, str] = {}  # a value written over another one -> that one
        self.stored: dict[str, Stored] = {}
        self.arenas: list[Arena] = []
        self._places: dict[str, Place] = {}
        self._free: list[Place] = []
        for at, group in enumerate(groups):
            self._place(at, group)

    def reserve(self, rings: Sequence[int], seams: int) -> None:
        """Take memory for the rings of every thread, and for what threads lend each other."""
        self._rings = [Arena(size) for size in rings]
        self._seams = Arena(seams)
        self.arenas += [*self._rings, self._seams]

    def ring_base(self, thread: int) -> int:
        """Return where the rings of a thread begin."""
        return self._rings[thread].address

    def seam_base(self) -> int:
        """Return where the lent rows begin."""
        return self._seams.address

    def inside(self, group: Group) -> set[str]:
        """Return the values that are made and read in one group only."""
        made = {self.layers[index].output for index in group.layers}
        return {
            name for name in made
            if self.first[name] == self.last[name] and group.wave and len(group.layers) > 1
            and isinstance(self.geometry[name], Shape)
        }  # fmt: skip

    def row(self, name: str, row: int) -> Word:
        """Return where a row of a stored value, or of a picture outside, begins."""
        shape = self.geometry[name]
        if isinstance(shape, Plane):
            return Outside(name, row * shape.row_bytes)
        return self.stored[name].row(row)

    def _place(self, at: int, group: Group) -> None:
        inside = self.inside(group)
        for index in group.layers:
            layer = self.layers[index]
            shape = self.geometry[layer.output]
            if isinstance(shape, Shape) and layer.output not in inside | self.stored.keys():
                self._store(layer, shape, group, at)
        for name in self.stored:
            if self.last[name] == at and name not in self.in_place.values():
                self._free.append(self._places[name])

    def _store(self, layer: Layer, shape: Shape, group: Group, at: int) -> None:
        beyond = layer.work.beyond if isinstance(layer.work, Rearrange) else 0.0
        victim = self._victim(layer, shape, group, at)
        if victim is not None:
            self.stored[layer.output] = self.stored[victim]
            self._places[layer.output] = self._places[victim]
            self.in_place[layer.output] = victim
            return
        place = self._free_place(shape, beyond)
        stored = Stored(shape, place.arena.address, beyond)
        if (shape, beyond) not in place.kinds:
            stored.surround(place.arena)
            place.kinds.add((shape, beyond))
        self._places[layer.output] = place
        self.stored[layer.output] = stored

    def _free_place(self, shape: Shape, beyond: float) -> Place:
        """Return memory that nobody needs now: of the same kind if possible, else the smallest."""
        size = Stored.size(shape)
        same = [place for place in self._free if (shape, beyond) in place.kinds]
        large = [place for place in self._free if place.arena.size >= size]
        if same or large:
            found = same[-1] if same else min(large, key=lambda place: place.arena.size)
            self._free.remove(found)
            return found
        arena = Arena(size)
        self.arenas.append(arena)
        return Place(arena)

    def to_surround(self, at: int) -> list[str]:
        """Return the values of a group whose memory other kinds of values have as well."""
        return [
            name for name, place in self._places.items()
            if self.first[name] == at and len(place.kinds) > 1 and name not in self.in_place
        ]  # fmt: skip

    def _victim(self, layer: Layer, shape: Shape, group: Group, at: int) -> str | None:
        """Return a value that is read for the last time just before this one is written."""
        if not group.wave:
            return None
        members = [self.layers[index] for index in group.layers]
        plan = wave(members, self.geometry, group.pace)
        own = members.index(layer)
        if plan.rate[own] != 1:
            return None
        lags, reach = lag(plan, own), plan.reach()
        for name in dict.fromkeys(part.value for m in members for part in (*m.operands, *m.source)):
            if name not in self.stored or self.last[name] != at or self.first[name] == at:
                continue
            if self.stored[name].shape != shape or self.stored[name].beyond:
                continue
            if name in self.in_place.values():
                continue
            if all(
                _harmless(member, name, index, own, lags)
                and (index == own or reach[own] >= reach[index] + reads_rows(member)[1])
                for index, member in enumerate(members)
                if name in member.reads
            ):
                return name
        return None


def _harmless(member: Layer, name: str, index: int, own: int, lags: dict[int, int]) -> bool:
    """Return whether a member has read a row of a value for good when the row is overwritten."""
    if index == own:  # it reads each number just before it writes it
        return all(part.value != name for part in member.source)
    above = reads_rows(member)[0] if any(p.value == name for p in member.source) else 0
    return index in lags and lags[index] >= above


def lag(wave: Wave, layer: int) -> dict[int, int]:
    """Return how many rows earlier layers of a group are ahead of a layer, at least."""
    found = {layer: 0}
    for reader in range(layer, -1, -1):
        if reader in found:
            for link in wave.links[reader]:
                ahead = found[reader] + link.below
                found[link.maker] = max(found.get(link.maker, 0), ahead // wave.rate[link.maker])
    return found
