"""Kernels that prepare a value for its readers: columns beyond the strips, rows beyond it."""

from dataclasses import dataclass
from enum import IntEnum

from llvmlite import ir

from scumble.engines.cpu.emitter import F32, I64, Emitter, Value
from scumble.engines.cpu.target import Target


class Sides(IntEnum):
    """Words of a call that writes the columns left and right of the strips."""

    FIRST = 0  # address of the first row's first line
    ROWS = 1
    ROW = 2  # bytes from row to row
    CHANNELS = 3
    CHANNEL = 4  # bytes from channel to channel
    LINES = 5


class Move(IntEnum):
    """Words of a call that copies bytes, which must not overlap, or fills them with a number."""

    TO = 0
    FROM = 1
    BYTES = 2  # a multiple of a line
    FILL = 3  # the bits of a float


@dataclass(frozen=True)
class SidesKernel:
    """Column -1 of a strip is the last of the strip before it: the same line, one lane on.

    The outermost strips have zeros there.
    """

    width: int  # columns on either side

    @property
    def name(self) -> str:
        """Return a name that says it all."""
        return f"sides_{self.width}"

    def assembly(self, target: Target) -> str:
        """Return the code."""
        emit = Emitter(self.name, target)
        first = emit.address(Sides.FIRST)
        words = {word: emit.argument(word) for word in Sides}
        rows, channels = words[Sides.ROWS], words[Sides.CHANNELS]
        with emit.loop(rows) as row, emit.loop(channels) as channel:
            down = emit.times(row, words[Sides.ROW])
            place = emit.at(first, down, emit.times(channel, words[Sides.CHANNEL]))
            end = emit.at(place, emit.times(words[Sides.LINES], I64(emit.line)))
            for column in range(self.width):
                left, right = (column + 1) * -emit.line, column * emit.line
                emit.write(
                    self._shifted(emit, emit.read(emit.at(end, left)), 1), emit.at(place, left)
                )
                emit.write(
                    self._shifted(emit, emit.read(emit.at(place, right)), -1),
                    emit.at(end, right),
                )
        return emit.finish()

    @staticmethod
    def _shifted(emit: Emitter, value: Value, by: int) -> Value:
        lanes = emit.lanes
        places = [lane - by if 0 <= lane - by < lanes else lanes for lane in range(lanes)]
        choice = ir.Constant(emit.indices, places)
        return emit.build.shuffle_vector(value, emit.floats(0.0), choice)


@dataclass(frozen=True)
class MoveKernel:
    """Copies rows, or fills them."""

    fill: bool

    @property
    def name(self) -> str:
        """Return a name that says it all."""
        return "fill" if self.fill else "move"

    def assembly(self, target: Target) -> str:
        """Return the code."""
        emit = Emitter(self.name, target)
        to, source = emit.address(Move.TO), emit.address(Move.FROM)
        filling = emit.spread(emit.load(F32, emit.at(emit.arguments, Move.FILL * 8)))
        with emit.loop(emit.argument(Move.BYTES), emit.line) as at:
            value = filling if self.fill else emit.read(emit.at(source, at))
            emit.write(value, emit.at(to, at))
        return emit.finish()
