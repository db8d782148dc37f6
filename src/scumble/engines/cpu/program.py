"""From layers to calls: every address worked out, so that a thread only follows its list."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scumble.engines.cpu import schedule
from scumble.engines.cpu.edge_kernel import MoveKernel, SidesKernel
from scumble.engines.cpu.geometry import Geometry, Shape, sideways
from scumble.engines.cpu.groups import Group, reads_rows, wave
from scumble.engines.cpu.kernels import Kernels
from scumble.engines.cpu.layer_code import Invocation, LayerCode, Range, Word, bits
from scumble.engines.cpu.layers import Layer, Part, Rearrange
from scumble.engines.cpu.placement import Placement
from scumble.engines.cpu.row_code import MeanCode
from scumble.engines.cpu.schedule import Bottom, Seam, Shares, Wave, Work
from scumble.engines.cpu.storage import Ring, Stored

# Steps of a wave for which a ring has room before its rows are moved to its start.
SPARE = 2


@dataclass(frozen=True)
class Done:
    """A moment in a thread's list: so many of its calls are done."""

    thread: int
    calls: int


class Program:
    """The lists of calls of all threads, while they are written."""

    def __init__(
        self,
        layers: Sequence[Layer],
        codes: Sequence[LayerCode],
        groups: Sequence[Group],
        geometry: Geometry,
        kernels: Kernels,
        threads: int,
        placement: Placement,
    ) -> None:
        self.layers, self.codes, self.geometry = layers, codes, geometry
        self.kernels, self.threads, self.placement = kernels, threads, placement
        self.calls: list[list[tuple[int, list[Word], Done | None]]] = [[] for _ in range(threads)]
        self.line = 4 * kernels.target.lanes
        self.beside = _sides(layers)
        self.beyond = {
            layer.output: layer.work.beyond for layer in layers if isinstance(layer.work, Rearrange)
        }
        writers = {at: WaveWriter(self, one) for at, one in enumerate(groups) if one.wave}
        rings = [
            max((w.ring_bytes(t) for w in writers.values()), default=0) for t in range(threads)
        ]
        placement.reserve(rings, max((w.seam_bytes() for w in writers.values()), default=0))
        for at, group in enumerate(groups):
            last = writers[at].shares.threads - 1 if at in writers else 0
            for name in placement.to_surround(at):
                self._surround(placement.stored[name], last)
            if at in writers:
                writers[at].write()
            else:
                self._whole(group.layers[0])
            self._meet()

    def channels(self, name: str) -> int:
        """Return the channels of a value."""
        return self.geometry[name].channels

    def add(self, thread: int, function: int, words: list[Word], after: Done | None = None) -> None:
        """Append a call to a thread's list."""
        self.calls[thread].append((function, words, after))

    def wait(self, thread: int, moment: Done) -> None:
        """Let a thread wait for another one."""
        self.add(thread, 0, [], moment)

    def invoke(self, thread: int, invocations: Sequence[Invocation]) -> None:
        """Append a layer's calls."""
        for one in invocations:
            self.add(thread, one.function, one.words)

    def sides(self, thread: int, name: str, first: int, rows: int, address: int) -> None:
        """Append the call that writes the columns beyond the strips, if anybody reads them."""
        width = self.beside.get(name, 0)
        if not width:
            return
        shape = self.geometry[name]
        assert isinstance(shape, Shape)
        words: list[Word] = [
            address, rows, shape.row_bytes, shape.channels, shape.channel_bytes, shape.lines
        ]  # fmt: skip
        self.add(thread, self.kernels.address(SidesKernel(width)), words)

    def fill(self, thread: int, address: int, size: int, number: float) -> None:
        """Append a call that fills memory with a number."""
        words: list[Word] = [address, 0, size, bits(number)]
        self.add(thread, self.kernels.address(MoveKernel(fill=True)), words)

    def move(self, thread: int, to: int, source: int, size: int, after: Done | None = None) -> None:
        """Append a call that copies memory."""
        words: list[Word] = [to, source, size, 0]
        self.add(thread, self.kernels.address(MoveKernel(fill=False)), words, after)

    def _whole(self, index: int) -> None:
        """Write a layer that is not done row by row: threads share its rows, or channels."""
        layer, code = self.layers[index], self.codes[index]
        out = self.geometry[layer.output]
        mean = isinstance(code, MeanCode)
        count = layer.source[0].count if mean else out.height
        if mean and isinstance(out, Shape):  # one pixel: all other lanes and lines are zero
            start = self.placement.stored[layer.output].row(0) - out.margin.lines * self.line
            self.fill(0, start, out.row_bytes, 0.0)
            self._meet()
        for thread in range(self.threads):
            first, stop = (count * at // self.threads for at in (thread, thread + 1))
            if first == stop:
                continue
            self.invoke(thread, list(code.calls(first, stop, self.placement.row)))
            if not mean and isinstance(out, Shape):
                start = self.placement.stored[layer.output].row(first)
                self.sides(thread, layer.output, first, stop - first, start)
        if mean:
            self._meet()
            self.sides(0, layer.output, 0, 1, self.placement.stored[layer.output].row(0))

    def _surround(self, stored: Stored, last: int) -> None:
        """Write the rows above and below a value: each by the thread that reads them first."""
        edge = stored.shape.margin.rows * stored.shape.row_bytes
        below = stored.base + Stored.size(stored.shape) - edge
        self.fill(0, stored.base, edge, stored.beyond)
        self.fill(last, below, edge, stored.beyond)

    def _meet(self) -> None:
        """Let every thread wait for all others."""
        ends = [len(calls) for calls in self.calls]
        for thread in range(self.threads):
            for other, end in enumerate(ends):
                if other != thread and end:
                    self.wait(thread, Done(other, end))


def _sides(layers: Sequence[Layer]) -> dict[str, int]:
    """Return how many columns beyond the strips are read of every value."""
    found: dict[str, int] = defaultdict(int)
    for layer in layers:
        for part in layer.source:
            found[part.value] = max(found[part.value], *sideways(layer))
    return found


class WaveWriter:
    """Writes a group that runs row by row."""

    def __init__(self, program: Program, group: Group) -> None:
        self.program, self.group = program, group
        self.members = [program.layers[index] for index in group.layers]
        self.wave = wave(self.members, program.geometry, group.pace)
        self.shares = schedule.share(self.wave, program.threads, group.pace)
        self.inside = program.placement.inside(group)
        self.rings: dict[str, Ring] = {}
        self.progress: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self.seams: dict[tuple[int, int], tuple[int, int, int]] = {}  # address, first, stop
        self.held: dict[str, int] = {}  # rows of a ring that are written
        self.capacity: dict[int, list[int]] = {}  # rows of every ring, by thread
        self.thread = 0

    def ring_bytes(self, thread: int) -> int:
        """Return the bytes of a thread's rings."""
        if thread >= self.shares.threads:
            return 0
        return sum(rows * shape.row_bytes for _, shape, rows in self._ring_rows(thread))

    def seam_bytes(self) -> int:
        """Return the bytes of all rows that threads lend each other."""
        total = 0
        for index, layer in enumerate(self.members):
            if layer.output in self.inside:
                for thread in range(self.shares.threads - 1):
                    first, stop = self.shares.seam(self.wave, index, thread)
                    total += (stop - first) * self.program.geometry[layer.output].row_bytes
        return total

    def _ring_rows(self, thread: int) -> Iterator[tuple[int, Shape, int]]:
        """Yield the layers whose results are in rings, with the rows of the rings."""
        if not self.inside:
            return
        if thread not in self.capacity:
            margin = next(
                s.margin.rows for s in self.program.geometry.values() if isinstance(s, Shape)
            )
            self.capacity[thread] = ring_rows(self.wave, self.shares, thread, margin)
        for index, layer in enumerate(self.members):
            shape = self.program.geometry[layer.output]
            if layer.output in self.inside and isinstance(shape, Shape):
                yield index, shape, self.capacity[thread][index]

    def write(self) -> None:
        """Write the lists of all threads, the last one first: others take its rows."""
        self.lent = self.program.placement.seam_base()
        for thread in reversed(range(self.shares.threads)):
            self.thread = thread
            self._open_rings()
            for event in schedule.run(self.wave, self.shares, thread):
                match event:
                    case Work():
                        self._work(event)
                    case Seam():
                        self._seam(event)
                    case Bottom():
                        self._bottom(event)

    def _open_rings(self) -> None:
        """Lay the rings of a thread one after the other in its memory."""
        program = self.program
        at = program.placement.ring_base(self.thread)
        self.rings = {}
        for index, shape, capacity in self._ring_rows(self.thread):
            start = self.shares.edges[index][self.thread] * self.wave.rate[index]
            above = shape.margin.rows if start == 0 else 0
            ring = Ring(shape, at, capacity, start - above)
            self.rings[self.members[index].output] = ring
            at += capacity * shape.row_bytes
            if above:
                program.fill(self.thread, ring.base, above * shape.row_bytes, 0.0)

    def _row(self, name: str, row: int) -> Word:
        ring = self.rings.get(name)
        return ring.row(row) if ring else self.program.placement.row(name, row)

    def _make_room(self, name: str, stop: int, keep: int) -> None:
        """Move the rows that are still needed to the start of a ring, if it is full."""
        ring = self.rings.get(name)
        if ring is None or ring.holds(stop):
            return
        keep = max(keep, ring.origin)
        size = ring.shape.row_bytes
        held = self.held[name] - keep
        if held > 0:
            source = ring.base + (keep - ring.origin) * size
            self.program.move(self.thread, ring.base, source, held * size)
        ring.origin = keep
        assert ring.holds(stop), (name, stop, ring)

    def _work(self, event: Work) -> None:
        program, layer = self.program, self.members[event.layer]
        code = program.codes[self.group.layers[event.layer]]
        rate = self.wave.rate[event.layer]
        first, stop = event.first * rate, event.stop * rate
        self._make_room(layer.output, stop, event.keep)
        self._respect_readers(event, layer)
        ahead = self._ahead(event, layer)
        program.invoke(self.thread, list(code.calls(event.first, event.stop, self._row, ahead)))
        if isinstance(program.geometry[layer.output], Shape):
            address = self._row(layer.output, first)
            assert isinstance(address, int)
            program.sides(self.thread, layer.output, first, stop - first, address)
        self.held[layer.output] = stop
        self._lend(event.layer, layer, first, stop)
        calls = len(program.calls[self.thread])
        self.progress[self.thread, event.layer].append((event.stop, calls))

    def _ahead(self, event: Work, layer: Layer) -> list[Range]:
        """Return what the layer's next rows will touch of values that are not in rings."""
        below, rate = reads_rows(layer)[1], self.wave.rate[event.layer]
        rows = event.stop - event.first
        found: list[Range] = []
        for part, start, count in (
            *((part, event.stop + below, rows) for part in layer.source),
            *((part, event.stop, rows) for part in layer.operands),
            (self._written(layer), event.stop * rate, rows * rate),
        ):
            if part is not None and self._opens(event.layer, part.value):
                found += self._lines(part, start, count)
        return found

    def _written(self, layer: Layer) -> Part | None:
        """Return what a layer writes; nothing if it overwrites what was just read."""
        if layer.output in self.program.placement.in_place:
            return None
        return Part(layer.output, 0, self.program.channels(layer.output))

    def _opens(self, index: int, name: str) -> bool:
        """Return whether a layer is the first of the group to touch a stored value."""
        if name in self.rings or name not in self.program.placement.stored:
            return False
        return all(name not in {*m.reads, m.output} for m in self.members[:index])

    def _lines(self, part: Part, start: int, count: int) -> Iterator[Range]:
        """Yield the lines of some rows of a part."""
        stored = self.program.placement.stored[part.value]
        shape = stored.shape
        stop = min(start + count, shape.height)
        if start >= stop:
            return
        if part.count == shape.channels:
            yield stored.row(start), (stop - start) * shape.row
            return
        for row in range(start, stop):
            yield stored.row(row) + part.start * shape.channel_bytes, part.count * shape.pitch

    def _respect_readers(self, event: Work, layer: Layer) -> None:
        """Wait until the next thread has read what this one is about to overwrite in place."""
        victim = self.program.placement.in_place.get(layer.output)
        if victim is None or self.thread + 1 >= self.shares.threads:
            return
        for index, member in enumerate(self.members):
            if victim not in member.reads or index == event.layer:
                continue
            margin = self.program.placement.stored[victim].shape.margin.rows
            if event.stop > self.shares.edges[index][self.thread + 1] - margin:
                end = self.shares.edges[index][self.thread + 2]
                moment = self._moment(index, min(event.stop + margin, end))
                self.program.wait(self.thread, moment)

    def _moment(self, layer: int, rows: int) -> Done:
        """Return when the next thread has made a layer's rows up to ``rows``."""
        for stop, calls in self.progress[self.thread + 1, layer]:
            if stop >= rows:
                return Done(self.thread + 1, calls)
        raise AssertionError((layer, rows))

    def _lend(self, index: int, layer: Layer, first: int, stop: int) -> None:
        """Set rows aside that the thread before this one will take."""
        ring = self.rings.get(layer.output)
        if ring is None or self.thread == 0:
            return
        begin, end = self.shares.seam(self.wave, index, self.thread - 1)
        key = self.thread, index
        if end > begin and key not in self.seams:
            size = (end - begin) * ring.shape.row_bytes
            self.seams[key] = (self.lent, begin, end)
            self.lent += size
        low, high = max(first, begin), min(stop, end)
        if low < high:
            size = ring.shape.row_bytes
            source = ring.base + (low - ring.origin) * size
            to = self.seams[key][0] + (low - begin) * size
            self.program.move(self.thread, to, source, (high - low) * size)

    def _seam(self, event: Seam) -> None:
        program, layer = self.program, self.members[event.layer]
        rate = self.wave.rate[event.layer]
        moment = self._moment(event.layer, -(-event.stop // rate))
        ring = self.rings.get(layer.output)
        if ring is None:
            program.wait(self.thread, moment)
            return
        self._make_room(layer.output, event.stop, event.keep)
        address, begin, _ = self.seams[self.thread + 1, event.layer]
        size = ring.shape.row_bytes
        to = ring.base + (event.first - ring.origin) * size
        source = address + (event.first - begin) * size
        program.move(self.thread, to, source, (event.stop - event.first) * size, moment)
        self.held[layer.output] = event.stop

    def _bottom(self, event: Bottom) -> None:
        name = self.members[event.layer].output
        ring = self.rings.get(name)
        if ring is None or not ring.shape.margin.rows:
            return
        end, below = ring.shape.height, ring.shape.margin.rows
        self._make_room(name, end + below, event.keep)
        to = ring.base + (end - ring.origin) * ring.shape.row_bytes
        self.program.fill(self.thread, to, below * ring.shape.row_bytes, 0.0)
        self.held[name] = end + below


def ring_rows(wave: Wave, shares: Shares, thread: int, margin: int) -> list[int]:
    """Return how many rows rings need: all that are needed at once, and some to move seldom."""
    most = [0] * len(wave.rows)
    for event in schedule.run(wave, shares, thread):
        at, rate = event.layer, wave.rate[event.layer]
        match event:
            case Work(stop=stop):
                most[at] = max(most[at], stop * rate - event.keep)
            case Seam(stop=stop):
                most[at] = max(most[at], stop - event.keep)
            case Bottom():
                most[at] = max(most[at], wave.rows[at] * rate + margin - event.keep)
    spare = [SPARE * pace * rate for pace, rate in zip(wave.pace, wave.rate, strict=True)]
    return [rows + margin + more for rows, more in zip(most, spare, strict=True)]
