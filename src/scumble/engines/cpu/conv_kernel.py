"""The convolution: kept weights, one by one, each times a tile of rows and lines.

A tile is ``rows`` by ``lines`` vectors of ``outputs`` channels, whose sums stay in registers. For a
tile's channels, and for every block of input channels, a list says where the inputs of the kept
weights stand relative to the tile. Sums wait in scratch memory between two blocks. An input is read
where it lies, so that nothing is packed or copied; where most weights are kept, several output
channels share what is read. Between two lists, lines of the next rows are asked for.
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
    AHEAD = 5  # address of what to ask for: pairs of an address and a number of lines
    EACH = 6  # lines to ask for after every list
    OTHERS = 7


class Layer(IntEnum):
    """Words that say what is the same for all calls of a layer."""

    CHUNKS = 0  # of output channels
    CHUNK = 1  # lists of a chunk and block: output channels by outputs of a tile
    BLOCKS = 2
    BLOCK_TABLE = 3  # three words each: part, bytes into it, bytes from a tile's row to the next
    OFFSETS = 4  # of the kept weights' inputs, in lines
    WEIGHTS = 5
    LENGTHS = 6  # of every list, by chunk, block, output channel
    BIAS = 7
    OUT_CHANNELS = 8  # bytes of every output channel into a row
    OUT_ROW = 9  # bytes from row to row
    OUT_LINE = 10  # bytes from line to line
    MASK = 11  # lines that are zero beyond the right edge
    OTHERS = 12


BLOCK_WORDS = 3
STEPS_AHEAD = 2  # offsets are read so many steps before they are used
_SECOND_LEVEL = 2


@dataclass(frozen=True)
class Tile:
    """Vectors that stay in registers."""

    rows: int
    lines: int
    outputs: int = 1

    @property
    def vectors(self) -> int:
        """Return how many vectors a tile has."""
        return self.rows * self.lines * self.outputs


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
        size = f"{self.tile.outputs}x{self.tile.rows}x{self.tile.lines}"
        flags = ("m" if self.masked else "") + ("w" if self.wide else "")
        return "_".join(part for part in ("conv", size, flags, *map(str, self.steps)) if part)

    def assembly(self, target: Target) -> str:
        """Return the code."""
        return _Writer(self, Emitter(self.name, target)).write()


class _Writer:
    def __init__(self, kernel: ConvKernel, emit: Emitter) -> None:
        self.kernel, self.emit, self.tile = kernel, emit, kernel.tile
        self.layer = emit.address(Task.LAYER)
        others = Task.OTHERS + kernel.steps.operands
        self.parts = emit.at(emit.arguments, others * 8)
        self.finish = Finish(emit, kernel.steps, self.layer, Layer.OTHERS, Task.OTHERS)
        self.offset_type = I32 if kernel.wide else I16
        self.offset_bytes = 4 if kernel.wide else 2
        words = (Layer.CHUNKS, Layer.CHUNK, Layer.BLOCKS, Layer.OUT_ROW, Layer.OUT_LINE)
        self.words = {word: emit.argument(word, self.layer) for word in words}
        tables = (
            Layer.BLOCK_TABLE, Layer.OFFSETS, Layer.WEIGHTS, Layer.LENGTHS, Layer.BIAS,
            Layer.OUT_CHANNELS, Layer.MASK,
        )  # fmt: skip
        self.tables = {word: emit.address(word, self.layer) for word in tables}
        self.sums = [emit.variable(emit.vector, emit.floats(0.0)) for _ in range(self.tile.vectors)]
        self.each = emit.argument(Task.EACH)
        self.asked = emit.variable(POINTER, emit.address(Task.AHEAD))  # the current pair
        self.asking = emit.variable(POINTER, emit.address(0, emit.address(Task.AHEAD)))
        self.left = emit.variable(I64, emit.argument(1, emit.address(Task.AHEAD)))

    def write(self) -> str:
        """Return the code of these loops.

        for row, line in tiles:
            for chunk in chunks of output channels:
                for block in blocks of input channels:
                    for channel in chunk:
                        sums = bias if it is the first block else scratch[channel]
                        for offset, weight in lists[chunk, block, channel]:
                            sums += weight * input[block, row, line, offset]
                        scratch[channel] = sums, or finished output if it is the last block
                        prefetch some lines
        """
        emit, tile = self.emit, self.tile
        start = emit.argument(Task.START)
        rows, tiles = emit.argument(Task.ROWS), emit.argument(Task.TILES)
        with emit.loop(rows, tile.rows) as row, emit.loop(tiles) as across:
            self.row = row
            self.line = emit.build.add(start, emit.times(across, I64(tile.lines)))
            self._one_tile()
        return emit.finish()

    def _one_tile(self) -> None:
        emit = self.emit
        self.offsets = emit.variable(POINTER, self.tables[Layer.OFFSETS])
        self.weights = emit.variable(POINTER, self.tables[Layer.WEIGHTS])
        self.lengths = emit.variable(POINTER, self.tables[Layer.LENGTHS])
        self.ahead = [emit.variable(I64, self._next_offset()) for _ in range(STEPS_AHEAD)]
        last = emit.build.sub(self.words[Layer.BLOCKS], I64(1))
        with emit.loop(self.words[Layer.CHUNKS]) as chunk:
            first = emit.times(chunk, self.words[Layer.CHUNK])
            with emit.loop(self.words[Layer.BLOCKS]) as block:
                base, stride = self._block(block)
                opening = emit.build.icmp_signed("==", block, I64(0))
                closing = emit.build.icmp_signed("==", block, last)
                with emit.loop(self.words[Layer.CHUNK]) as index:
                    self.channel = emit.times(emit.build.add(first, index), I64(self.tile.outputs))
                    self._begin(opening, index)
                    self._add_up(base, stride)
                    self._end(closing, index)
                    self._ask()

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

    def _sum(self, output: int, row: int, line: int) -> Value:
        """Return the sum of one vector of the tile."""
        return self.sums[(output * self.tile.rows + row) * self.tile.lines + line]

    def _begin(self, opening: Value, index: Value) -> None:
        emit, tile = self.emit, self.tile
        with emit.build.if_else(opening) as (then, otherwise):
            with then:
                place = emit.at(self.tables[Layer.BIAS], emit.times(self.channel, I64(FLOAT)))
                for output in range(tile.outputs):
                    bias = emit.spread(emit.load(F32, emit.at(place, output * FLOAT)))
                    for row in range(tile.rows):
                        for line in range(tile.lines):
                            emit.set(self._sum(output, row, line), bias)
            with otherwise:
                for total, place in self._waiting(index):
                    emit.set(total, emit.read(place))

    def _waiting(self, index: Value) -> list[tuple[Value, Value]]:
        """Return every sum with its place in scratch memory."""
        emit = self.emit
        base = emit.at(emit.scratch, emit.times(index, I64(self.tile.vectors * emit.line)))
        return [(total, emit.at(base, at * emit.line)) for at, total in enumerate(self.sums)]

    def _add_up(self, base: Value, stride: Value) -> None:
        """Add the products of one list."""
        emit = self.emit
        place = emit.get(self.lengths, POINTER)
        count = emit.build.zext(emit.load(I32, place), I64)
        emit.set(self.lengths, emit.at(place, FLOAT))
        with emit.loop(count):
            source = emit.at(base, emit.get(self.ahead[0], I64))
            for now, later in zip(self.ahead, self.ahead[1:], strict=False):
                emit.set(now, emit.get(later, I64))
            emit.set(self.ahead[-1], self._next_offset())
            self._add_products(source, self._next_weights(), stride)

    def _next_weights(self) -> list[Value]:
        """Read a weight for every output channel of the tile, and step on."""
        emit = self.emit
        place = emit.get(self.weights, POINTER)
        emit.set(self.weights, emit.at(place, self.tile.outputs * FLOAT))
        places = (emit.at(place, output * FLOAT) for output in range(self.tile.outputs))
        return [emit.spread(emit.load(F32, place)) for place in places]

    def _add_products(self, source: Value, weights: list[Value], stride: Value) -> None:
        emit = self.emit
        for row in range(self.tile.rows):
            for line in range(self.tile.lines):
                value = emit.read(emit.at(source, line * emit.line))
                for output, weight in enumerate(weights):
                    total = self._sum(output, row, line)
                    emit.set(total, emit.fma(weight, value, emit.get(total, emit.vector)))
            source = emit.at(source, stride)

    def _end(self, closing: Value, index: Value) -> None:
        emit = self.emit
        with emit.build.if_else(closing) as (then, otherwise):
            with then:
                for output in range(self.tile.outputs):
                    self._store(output)
            with otherwise:
                for total, place in self._waiting(index):
                    emit.write(emit.get(total, emit.vector), place)

    def _store(self, output: int) -> None:
        """Finish the sums of one output channel and write them where they belong."""
        emit, tile = self.emit, self.tile
        channel = emit.build.add(self.channel, I64(output))
        down = emit.times(self.row, self.words[Layer.OUT_ROW])
        across = emit.times(self.line, self.words[Layer.OUT_LINE])
        own = emit.word(self.tables[Layer.OUT_CHANNELS], channel)
        out = emit.at(emit.address(Task.OUT), own, down, across)
        self.finish.open(channel, self.row, self.line)
        mask = emit.at(self.tables[Layer.MASK], emit.times(self.line, I64(emit.line)))
        for row in range(tile.rows):
            place = out
            for line in range(tile.lines):
                value = emit.get(self._sum(output, row, line), emit.vector)
                value = self.finish.apply(value, line)
                if self.kernel.masked:
                    value = emit.masked(value, emit.at(mask, line * emit.line))
                emit.write(value, place)
                place = emit.at(place, self.words[Layer.OUT_LINE])
            out = emit.at(out, self.words[Layer.OUT_ROW])
            self.finish.next_row()

    def _ask(self) -> None:
        """Ask for some lines of what will be read next."""
        emit, build = self.emit, self.emit.build
        with emit.loop(self.each):
            place = emit.get(self.asking, POINTER)
            emit.fetch(place, _SECOND_LEVEL)
            emit.set(self.asking, emit.at(place, emit.line))
        left = build.sub(emit.get(self.left, I64), self.each)
        emit.set(self.left, left)
        with emit.when(build.icmp_signed("<", left, I64(0))):
            pair = emit.at(emit.get(self.asked, POINTER), 16)
            emit.set(self.asked, pair)
            emit.set(self.asking, emit.address(0, pair))
            emit.set(self.left, emit.argument(1, pair))
