"""What happens to a sum before it is stored: activations, additions, products with other values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scumble.engines.cpu.emitter import F32, FLOAT, I64, Emitter, Value

Kind = Literal["relu", "leaky_relu", "sigmoid", "affine", "add", "multiply"]


@dataclass(frozen=True)
class Step:
    """One thing that happens to a vector."""

    kind: Kind
    slope: float = 0.0  # of a leaky ReLU
    pixel: bool = False  # the operand has one number per channel, in the first lane of a line

    @property
    def operand(self) -> bool:
        """Return whether it reads another value."""
        return self.kind in ("add", "multiply")

    def __str__(self) -> str:
        slope = (
            f"{self.slope!r}".replace(".", "p").replace("-", "n").replace("+", "")
            if self.slope
            else ""
        )
        return self.kind.replace("_", "") + slope + ("1" if self.pixel else "")


class Steps(tuple[Step, ...]):
    """Steps in their order."""

    __slots__ = ()

    @property
    def operands(self) -> int:
        """Return how many other values are read."""
        return sum(step.operand for step in self)


# Words of a layer for each step: of an operand the bytes from channel to channel and from row to
# row; of an affine the addresses of scales and shifts.
STEP_WORDS = 2


class Finish:
    """Writes the code of steps."""

    def __init__(self, emit: Emitter, steps: Steps, layer: Value, first: int, operand: int) -> None:
        self.emit, self.steps, self.layer = emit, steps, layer
        self.first, self.operand = first, operand
        self.places: list[Value] = []
        self.strides: list[Value] = []
        self.constants: list[tuple[Value, ...]] = []

    def open(self, channel: Value, row: Value, line: Value) -> None:
        """Look up what the steps need for an output channel, at a tile's first row and line."""
        emit = self.emit
        self.places, self.strides, self.constants = [], [], []
        for index, step in enumerate(self.steps):
            word = self.first + STEP_WORDS * index
            if step.operand:
                channels = emit.times(channel, emit.argument(word, self.layer))
                stride = emit.argument(word + 1, self.layer)
                place = emit.at(emit.address(self.operand + len(self.places)), channels)
                if not step.pixel:
                    place = emit.at(
                        place, emit.times(row, stride), emit.times(line, I64(emit.line))
                    )
                self.places.append(place)
                self.strides.append(stride)
                self.constants.append((emit.spread(emit.load(F32, place)),) if step.pixel else ())
            elif step.kind == "affine":
                own = emit.times(channel, I64(FLOAT))
                tables = (emit.address(word, self.layer), emit.address(word + 1, self.layer))
                pair = (emit.spread(emit.load(F32, emit.at(table, own))) for table in tables)
                self.constants.append(tuple(pair))
            else:
                self.constants.append(())

    def next_row(self) -> None:
        """Go to the tile's next row."""
        self.places = [
            self.emit.at(place, stride)
            for place, stride in zip(self.places, self.strides, strict=True)
        ]

    def apply(self, value: Value, line: int) -> Value:
        """Return what the steps make of a vector of the current row."""
        places = iter(self.places)
        for step, constants in zip(self.steps, self.constants, strict=True):
            value = self._apply(step, value, line, places, constants)
        return value

    def _apply(
        self, step: Step, value: Value, line: int, places: Iterator[Value], known: tuple[Value, ...]
    ) -> Value:
        emit = self.emit
        if step.operand:
            place = next(places)
            other = known[0] if step.pixel else emit.read(emit.at(place, line * emit.line))
            combine = emit.build.fadd if step.kind == "add" else emit.build.fmul
            return combine(value, other)
        match step.kind:
            case "relu":
                return emit.maximum(emit.floats(0.0), value)
            case "leaky_relu":
                small = emit.build.fmul(value, emit.floats(step.slope))
                positive = emit.build.fcmp_ordered(">", value, emit.floats(0.0))
                return emit.build.select(positive, value, small)
            case "affine":
                return emit.fma(value, known[0], known[1])
            case _:
                return sigmoid(emit, value)


def sigmoid(emit: Emitter, value: Value) -> Value:
    """Return 1 / (1 + exp(-x)), to about two units in the last place."""
    build = emit.build
    one = emit.floats(1.0)
    low = build.select(
        build.fcmp_ordered("<", value, emit.floats(-87.0)), emit.floats(-87.0), value
    )
    x = build.select(build.fcmp_ordered(">", low, emit.floats(87.0)), emit.floats(87.0), low)
    grown = exponential(emit, build.fsub(emit.floats(0.0), x))
    return build.fdiv(one, build.fadd(one, grown))


# exp(r) on -ln2/2..ln2/2, by Taylor's series: the next term is below 1e-8 of the sum.
_SERIES = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # the high part has few bits


def exponential(emit: Emitter, x: Value) -> Value:
    """Return exp(x) for x between -87 and 88: 2 to a whole power times the series of the rest."""
    from llvmlite import ir

    build = emit.build
    rounding = float(3 << 22)  # adding it leaves no room for fractions
    shifted = build.fadd(build.fmul(x, emit.floats(_LOG2_E)), emit.floats(rounding))
    whole = build.fsub(shifted, emit.floats(rounding))
    rest = emit.fma(whole, emit.floats(-_LN2_HIGH), x)
    rest = emit.fma(whole, emit.floats(-_LN2_LOW), rest)
    total = emit.floats(_SERIES[0])
    for term in _SERIES[1:]:
        total = emit.fma(total, rest, emit.floats(term))
    power = build.fptosi(whole, emit.indices)
    bias = ir.Constant(emit.indices, [127] * emit.lanes)
    bits = build.shl(build.add(power, bias), ir.Constant(emit.indices, [23] * emit.lanes))
    return build.fmul(total, build.bitcast(bits, emit.vector))
