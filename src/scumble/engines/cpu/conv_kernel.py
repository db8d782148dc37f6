"""The convolution: kept weights, one by one, each times a tile of rows and lines.

A tile is ``rows`` by ``lines`` vectors that stay in registers. For every output channel, and for
every block of input channels, a list says where the inputs of the kept weights stand relative to the
tile. Sums wait in scratch memory between two blocks. A weight is read once, and an input is read
where it lies, so that nothing is packed or copied.
"""

from dataclasses import dataclass
from enum import IntEnum

from scumble.engines.cpu.emitter import F32, FLOAT, I16, I32, I64, POINTER, Emitter, Value
from scumble.engines.cpu.finish import Finish, Steps
from scumble.engines.cpu.target import Target


class Task(IntEnum):
    """Words that say where one call works; the operands of the finish and the parts follow."""

    LAYER = 0
    ROWS = 1  # of the output before it is shuffled; a multiple of the tile's
    TILES = 2  # in a row
    START = 3  # first line of the row
    OUT = 4  # address of the first row's first line
    OTHERS = 5


class Layer(IntEnum):
    """Words that say what is the same for all calls of a layer."""

    CHUNKS = 0  # of output channels
    CHUNK = 1  # output channels in a chunk
    BLOCKS = 2
    BLOCK_TABLE = 3  # three words each: part, bytes into it, bytes from a tile's row to the next
    OFFSETS = 4  # of the kept weights' inputs, in lines
    WEIGHTS = 5
    LISTS = 6  # kept weights and output channel in its chunk, by chunk and block
    BIAS = 7
    OUT_CHANNELS = 8  # bytes of every output channel into a row
    OUT_ROW = 9  # bytes from row to row
    OUT_LINE = 10  # bytes from line to line
    MASK = 11  # lines that are zero beyond the right edge
    OTHERS = 12


BLOCK_WORDS = 3
LIST_BYTES = 8
AHEAD = 2  # offsets are read so many steps before they are used


@dataclass(frozen=True)
class Tile:
    """Vectors that stay in registers."""

    rows: int
    lines: int

    @property
    def vectors(self) -> int:
        return self.rows * self.lines


@dataclass(frozen=True)
class ConvKernel:
    """Everything that the code of a convolution depends on."""

    tile: Tile
    steps: Steps
    masked: bool
    wide: bool  # 32-bit offsets

    @property
    def name(self) -> str:
        """Return a name that says it all."""
        size = f"{self.tile.rows}x{self.tile.lines}"
        flags = ("m" if self.masked else "") + ("w" if self.wide else "")
        return "_".join(part for part in ("conv", size, flags, *map(str, self.steps)) if part)

    def assembly(self, target: Target) -> str:
        """Return the code."""
        return _Writer(self, Emitter(self.name, target)).write()


class _Writer:
    def __init__(self, kernel: ConvKernel, emit: Emitter) -> None:
        self.kernel, self.emit = kernel, emit
        self.tile = kernel.tile
        self.layer = emit.address(Task.LAYER)
        others = Task.OTHERS + kernel.steps.operands
        self.parts = emit.at(emit.arguments, others * 8)
        self.finish = Finish(emit, kernel.steps, self.layer, Layer.OTHERS, Task.OTHERS)
        self.offset_type = I32 if kernel.wide else I16
        self.offset_bytes = 4 if kernel.wide else 2
        self.words = {word: emit.argument(word, self.layer) for word in (
            Layer.CHUNKS, Layer.CHUNK, Layer.BLOCKS, Layer.OUT_ROW, Layer.OUT_LINE)}  # fmt: skip
        self.tables = {word: emit.address(word, self.layer) for word in (
            Layer.BLOCK_TABLE, Layer.OFFSETS, Layer.WEIGHTS, Layer.LISTS, Layer.BIAS,
            Layer.OUT_CHANNELS, Layer.MASK)}  # fmt: skip
        self.sums = [emit.variable(emit.vector, emit.floats(0.0)) for _ in range(self.tile.vectors)]

    def write(self) -> str:
        emit, tile = self.emit, self.tile
        start = emit.argument(Task.START)
        with emit.loop(emit.argument(Task.ROWS), tile.rows) as row:
            with emit.loop(emit.argument(Task.TILES)) as across:
                self.row = row
                self.line = emit.build.add(start, emit.times(across, I64(tile.lines)))
                self._one_tile()
        return emit.finish()

    def _one_tile(self) -> None:
        emit = self.emit
        self.offsets = emit.variable(POINTER, self.tables[Layer.OFFSETS])
        self.weights = emit.variable(POINTER, self.tables[Layer.WEIGHTS])
        self.lists = emit.variable(POINTER, self.tables[Layer.LISTS])
        self.ahead = [emit.variable(I64, self._next_offset()) for _ in range(AHEAD)]
        last = emit.build.sub(self.words[Layer.BLOCKS], I64(1))
        with emit.loop(self.words[Layer.CHUNKS]) as chunk:
            first_out = emit.times(chunk, self.words[Layer.CHUNK])
            with emit.loop(self.words[Layer.BLOCKS]) as block:
                base, stride = self._block(block)
                opening = emit.build.icmp_signed("==", block, I64(0))
                closing = emit.build.icmp_signed("==", block, last)
                with emit.loop(self.words[Layer.CHUNK]):
                    count, index = self._next_list()
                    channel = emit.build.add(first_out, index)
                    self._begin(opening, channel, index)
                    self._add_up(count, base, stride)
                    self._end(closing, channel, index)

    def _block(self, block: Value) -> tuple[Value, Value]:
        """Return where a block's inputs of this tile begin, and the bytes from row to row."""
        emit = self.emit
        record = emit.at(self.tables[Layer.BLOCK_TABLE], emit.times(block, I64(BLOCK_WORDS * 8)))
        part, into, stride = (emit.argument(index, record) for index in range(BLOCK_WORDS))
        place = emit.load(POINTER, emit.at(self.parts, emit.times(part, I64(8))), 8)
        down = emit.times(self.row, stride)
        across = emit.times(self.line, I64(emit.line))
        return emit.at(place, into, down, across), stride

    def _next_offset(self) -> Value:
        """Read an offset, as bytes, and step on."""
        emit = self.emit
        place = emit.get(self.offsets, POINTER)
        found = emit.load(self.offset_type, place, self.offset_bytes)
        emit.set(self.offsets, emit.at(place, self.offset_bytes))
        return emit.times(emit.build.zext(found, I64), I64(emit.line))

    def _begin(self, opening: Value, channel: Value, index: Value) -> None:
        emit = self.emit
        with emit.build.if_else(opening) as (then, otherwise):
            with then:
                place = emit.at(self.tables[Layer.BIAS], emit.times(channel, I64(FLOAT)))
                bias = emit.spread(emit.load(F32, place))
                for total in self.sums:
                    emit.set(total, bias)
            with otherwise:
                for total, place in self._waiting(index):
                    emit.set(total, emit.read(place))

    def _waiting(self, index: Value) -> list[tuple[Value, Value]]:
        """Return every sum with its place in scratch memory."""
        emit = self.emit
        base = emit.at(emit.scratch, emit.times(index, I64(self.tile.vectors * emit.line)))
        return [(total, emit.at(base, at * emit.line)) for at, total in enumerate(self.sums)]

    def _next_list(self) -> tuple[Value, Value]:
        """Return how many weights the next list has, and its output channel in the chunk."""
        emit = self.emit
        place = emit.get(self.lists, POINTER)
        count, index = (emit.build.zext(emit.load(I32, emit.at(place, at)), I64) for at in (0, 4))
        emit.set(self.lists, emit.at(place, LIST_BYTES))
        return count, index

    def _add_up(self, count: Value, base: Value, stride: Value) -> None:
        emit, tile = self.emit, self.tile
        with emit.loop(count):
            source = emit.at(base, emit.get(self.ahead[0], I64))
            for now, later in zip(self.ahead, self.ahead[1:], strict=False):
                emit.set(now, emit.get(later, I64))
            emit.set(self.ahead[-1], self._next_offset())
            place = emit.get(self.weights, POINTER)
            weight = emit.spread(emit.load(F32, place))
            emit.set(self.weights, emit.at(place, FLOAT))
            for row in range(tile.rows):
                for line in range(tile.lines):
                    total = self.sums[row * tile.lines + line]
                    value = emit.read(emit.at(source, line * emit.line))
                    emit.set(total, emit.fma(weight, value, emit.get(total, emit.vector)))
                source = emit.at(source, stride)

    def _end(self, closing: Value, channel: Value, index: Value) -> None:
        emit = self.emit
        with emit.build.if_else(closing) as (then, otherwise):
            with then:
                self._store(channel)
            with otherwise:
                for total, place in self._waiting(index):
                    emit.write(emit.get(total, emit.vector), place)

    def _store(self, channel: Value) -> None:
        emit, tile = self.emit, self.tile
        down = emit.times(self.row, self.words[Layer.OUT_ROW])
        across = emit.times(self.line, self.words[Layer.OUT_LINE])
        own = emit.word(self.tables[Layer.OUT_CHANNELS], channel)
        out = emit.at(emit.address(Task.OUT), own, down, across)
        self.finish.open(channel, self.row, self.line)
        masks = [
            emit.at(self.tables[Layer.MASK], emit.times(self.line, I64(emit.line)), line * emit.line)
            for line in range(tile.lines) if self.kernel.masked
        ]  # fmt: skip
        for row in range(tile.rows):
            place = out
            for line in range(tile.lines):
                value = emit.get(self.sums[row * tile.lines + line], emit.vector)
                value = self.finish.apply(value, line)
                if masks:
                    value = emit.masked(value, masks[line])
                emit.write(value, place)
                place = emit.at(place, self.words[Layer.OUT_LINE])
            out = emit.at(out, self.words[Layer.OUT_ROW])
            self.finish.next_row()
