"""Kernels that make one line at a time: copies, rearrangements, mixtures of rows, pooling."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from llvmlite import ir

from scumble.engines.cpu.emitter import F32, I32, I64, POINTER, Emitter, Value
from scumble.engines.cpu.finish import Finish, Steps
from scumble.engines.cpu.target import Target

Source = Literal["copy", "gather", "mix", "blend", "max", "mean"]


class Task(IntEnum):
    """Words that say where one call works; the operands follow."""

    LAYER = 0
    FIRST = 1  # row of the output
    ROWS = 2
    OUT = 3  # address of the first row
    SOURCE = 4  # address of the first row's source; of row 0 for a blend
    OTHERS = 5


class Layer(IntEnum):
    """Words that say what is the same for all calls of a layer."""

    CHANNELS = 0
    LINES = 1  # of a row
    OUT_ROW = 2  # bytes
    OUT_CHANNEL = 3
    SOURCE_ROW = 4
    SOURCE_CHANNEL = 5
    MASK = 6
    TABLE = 7  # gather: places in the source row; blend: rows; pool: windows
    SECOND = 8  # mix: places of the second number
    SHARE = 9  # mix: shares of the second number
    COUNT = 10  # windows' inputs
    TAIL = 11  # numbers in the last line of a plane
    BEYOND = 12  # what stands where no source is, as the bits of a float
    OTHERS = 13


BLEND_BYTES = 24  # two offsets in bytes, and the share of the second as a float


@dataclass(frozen=True)
class RowKernel:
    """Everything that the code of a row kernel depends on."""

    source: Source
    steps: Steps
    masked: bool
    plane: bool  # the output is a plane: the last line may be short

    @property
    def name(self) -> str:
        """Return a name that says it all."""
        flags = ("m" if self.masked else "") + ("p" if self.plane else "")
        return "_".join(
            part for part in ("rows", self.source, flags, *map(str, self.steps)) if part
        )

    def assembly(self, target: Target) -> str:
        """Return the code."""
        return _Writer(self, Emitter(self.name, target)).write()


class _Writer:
    def __init__(self, kernel: RowKernel, emit: Emitter) -> None:
        self.kernel, self.emit = kernel, emit
        layer = emit.address(Task.LAYER)
        self.words = {word: emit.argument(word, layer) for word in Layer if word < Layer.OTHERS}
        self.tables = {
            word: emit.address(word, layer)
            for word in (Layer.MASK, Layer.TABLE, Layer.SECOND, Layer.SHARE)
        }
        self.beyond = emit.spread(emit.load(F32, emit.at(layer, Layer.BEYOND * 8)))
        self.finish = Finish(emit, kernel.steps, layer, Layer.OTHERS, Task.OTHERS)
        self.out, self.source = emit.address(Task.OUT), emit.address(Task.SOURCE)
        self.first = emit.argument(Task.FIRST)

    def write(self) -> str:
        emit = self.emit
        rows, channels = emit.argument(Task.ROWS), self.words[Layer.CHANNELS]
        with emit.loop(rows) as row, emit.loop(channels) as channel:
            down = emit.times(channel, self.words[Layer.SOURCE_CHANNEL])
            source = emit.at(self.source, down)
            if self.kernel.source != "blend":
                source = emit.at(source, emit.times(row, self.words[Layer.SOURCE_ROW]))
            out = emit.at(
                self.out,
                emit.times(row, self.words[Layer.OUT_ROW]),
                emit.times(channel, self.words[Layer.OUT_CHANNEL]),
            )
            with emit.loop(self.words[Layer.LINES]) as line:
                self.finish.open(channel, row, line)
                value = self.finish.apply(self._value(source, row, line), 0)
                self._store(value, out, line)
        return emit.finish()

    def _value(self, source: Value, row: Value, line: Value) -> Value:
        emit = self.emit
        across = emit.times(line, I64(emit.line))
        match self.kernel.source:
            case "copy":
                return emit.read(emit.at(source, across))
            case "gather":
                return self._gather(source, emit.at(self.tables[Layer.TABLE], across))
            case "mix":
                first = self._gather(source, emit.at(self.tables[Layer.TABLE], across))
                second = self._gather(source, emit.at(self.tables[Layer.SECOND], across))
                share = emit.read(emit.at(self.tables[Layer.SHARE], across))
                return emit.fma(share, emit.build.fsub(second, first), first)
            case "blend":
                return self._blend(emit.at(source, across), row)
            case _:
                return self._pool(emit.at(source, across))

    def _gather(self, source: Value, table: Value) -> Value:
        """Read numbers from where a table says; a negative place is beyond the picture."""
        emit, build = self.emit, self.emit.build
        places = emit.load(emit.indices, table, emit.line)
        inside = build.icmp_signed(">=", places, ir.Constant(emit.indices, [0] * emit.lanes))
        longs = ir.VectorType(I64, emit.lanes)
        bytes_on = build.shl(build.sext(places, longs), ir.Constant(longs, [2] * emit.lanes))
        base = emit.spread(build.ptrtoint(source, I64))
        pointers = build.inttoptr(build.add(base, bytes_on), ir.VectorType(POINTER, emit.lanes))
        return emit.gather(pointers, inside, self.beyond)

    def _blend(self, source: Value, row: Value) -> Value:
        emit = self.emit
        index = emit.times(emit.build.add(self.first, row), I64(BLEND_BYTES))
        record = emit.at(self.tables[Layer.TABLE], index)
        first, second = (
            emit.read(emit.at(source, emit.argument(word, record))) for word in range(2)
        )
        share = emit.spread(emit.load(F32, emit.at(record, 16)))
        return emit.fma(share, emit.build.fsub(second, first), first)

    def _pool(self, source: Value) -> Value:
        emit = self.emit
        largest = self.kernel.source == "max"
        start = float("-inf") if largest else 0.0
        total = emit.variable(emit.vector, emit.floats(start))
        with emit.loop(self.words[Layer.COUNT]) as index:
            place = emit.at(source, emit.word(self.tables[Layer.TABLE], index))
            value, now = emit.read(place), emit.get(total, emit.vector)
            if largest:
                none = emit.build.fcmp_unordered("uno", value, value)
                new = emit.build.select(none, value, emit.maximum(value, now))
            else:
                new = emit.build.fadd(value, now)
            emit.set(total, new)
        result = emit.get(total, emit.vector)
        if largest:
            return result
        count = emit.build.sitofp(self.words[Layer.COUNT], F32)
        return emit.build.fdiv(result, emit.spread(count))

    def _store(self, value: Value, out: Value, line: Value) -> None:
        emit = self.emit
        across = emit.times(line, I64(emit.line))
        if self.kernel.masked:
            value = emit.masked(value, emit.at(self.tables[Layer.MASK], across))
        if not self.kernel.plane:
            emit.write(value, emit.at(out, across))
            return
        left = emit.build.sub(self.words[Layer.TAIL], emit.times(line, I64(emit.lanes)))
        lanes = ir.Constant(ir.VectorType(I64, emit.lanes), list(range(emit.lanes)))
        inside = emit.build.icmp_signed("<", lanes, emit.spread(left))
        emit.write_some(value, emit.at(out, across), inside)


@dataclass(frozen=True)
class MeanKernel:
    """The mean of every channel over all rows; the words are those of a row kernel.

    ``COUNT`` is the number of pixels; the result stands in the first lane of the output's row.
    """

    name = "mean_all"

    def assembly(self, target: Target) -> str:
        """Return the code."""
        emit = Emitter(self.name, target)
        layer = emit.address(Task.LAYER)
        words = {word: emit.argument(word, layer) for word in Layer if word < Layer.OTHERS}
        rows, out, source = (
            emit.argument(Task.ROWS),
            emit.address(Task.OUT),
            emit.address(Task.SOURCE),
        )
        first = ir.Constant(emit.vector, [1.0] + [0.0] * (emit.lanes - 1))
        count = emit.build.sitofp(words[Layer.COUNT], F32)
        with emit.loop(words[Layer.CHANNELS]) as channel:
            into = emit.at(source, emit.times(channel, words[Layer.SOURCE_CHANNEL]))
            total = emit.variable(emit.vector, emit.floats(0.0))
            emit.set(total, emit.floats(0.0))
            with emit.loop(rows) as row:
                part = emit.variable(emit.vector, emit.floats(0.0))
                emit.set(part, emit.floats(0.0))
                start = emit.at(into, emit.times(row, words[Layer.SOURCE_ROW]))
                with emit.loop(words[Layer.LINES]) as line:
                    value = emit.read(emit.at(start, emit.times(line, I64(emit.line))))
                    emit.set(part, emit.build.fadd(emit.get(part, emit.vector), value))
                both = emit.build.fadd(emit.get(total, emit.vector), emit.get(part, emit.vector))
                emit.set(total, both)
            vector = emit.get(total, emit.vector)
            scalar: Value = F32(0.0)
            for lane in range(emit.lanes):
                scalar = emit.build.fadd(scalar, emit.build.extract_element(vector, I32(lane)))
            mean = emit.spread(emit.build.fdiv(scalar, count))
            place = emit.at(out, emit.times(channel, words[Layer.OUT_CHANNEL]))
            emit.write(emit.build.fmul(mean, first), place)
        return emit.finish()
