"""A thin hand on llvmlite: typed loads, loops, vectors, for kernels that read like their loops."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from scumble.engines.cpu.target import Target

# llvmlite's values and types carry no annotations of their own.
Value = Any
Type = Any

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
POINTER = ir.PointerType()
WORD = 8  # bytes of an argument
FLOAT = 4


class _Callee:
    """A function known by its address; pointers are opaque, so the type is said beside it."""

    def __init__(self, pointer: Value, kind: Type) -> None:
        self.function_type, self.type = kind, POINTER
        self.get_reference = pointer.get_reference


class Emitter:
    """Writes one function ``void name(ptr arguments, ptr scratch)`` in a module of its own."""

    def __init__(self, name: str, target: Target) -> None:
        self.lanes = target.lanes
        self.line = FLOAT * target.lanes  # bytes of a vector
        self.vector = ir.VectorType(F32, target.lanes)
        self.indices = ir.VectorType(I32, target.lanes)
        self.fused = target.fused
        self.module = ir.Module(name=name)
        self.function = ir.Function(
            self.module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER]), name
        )
        for argument in self.function.args:
            argument.add_attribute("noalias")
        self.arguments, self.scratch = self.function.args
        self._entry = self.function.append_basic_block("entry")
        self.build = ir.IRBuilder(self.function.append_basic_block("start"))

    def finish(self) -> str:
        """Return the function as LLVM assembly."""
        self.build.ret_void()
        ir.IRBuilder(self._entry).branch(self.function.blocks[1])
        return str(self.module)

    # ---- numbers

    def number(self, value: int) -> Value:
        """Return a constant of 64 bits."""
        return I64(value)

    def times(self, a: Value, b: Value) -> Value:
        """Return a product."""
        return self.build.mul(a, b)

    def at(self, pointer: Value, *offsets: Value) -> Value:
        """Return an address some bytes on."""
        for offset in offsets:
            step = I64(offset) if isinstance(offset, int) else offset
            pointer = self.build.gep(pointer, [step], source_etype=I8)
        return pointer

    # ---- memory

    def load(self, kind: Type, pointer: Value, align: int = FLOAT) -> Value:
        """Read one value."""
        return self.build.load(pointer, typ=kind, align=align)

    def argument(self, index: int, of: Value | None = None) -> Value:
        """Read a word of the arguments, or of another table of words."""
        place = self.at(self.arguments if of is None else of, index * WORD)
        return self.load(I64, place, WORD)

    def address(self, index: int, of: Value | None = None) -> Value:
        """Read a word that is an address."""
        place = self.at(self.arguments if of is None else of, index * WORD)
        return self.load(POINTER, place, WORD)

    def word(self, table: Value, index: Value) -> Value:
        """Read the word of a table that stands at an index known when the code runs."""
        return self.load(I64, self.at(table, self.times(index, I64(WORD))), WORD)

    def read(self, pointer: Value) -> Value:
        """Read a line."""
        return self.load(self.vector, pointer, self.line)

    def write(self, value: Value, pointer: Value, align: int | None = None) -> None:
        """Write a line."""
        self.build.store(value, pointer, align=align or self.line)

    def variable(self, kind: Type, value: Value) -> Value:
        """Return a place for a value that changes; LLVM turns it into a register."""
        place = ir.IRBuilder(self._entry).alloca(kind)
        self.build.store(value, place)
        return place

    def get(self, place: Value, kind: Type) -> Value:
        """Read a variable."""
        return self.build.load(place, typ=kind)

    def set(self, place: Value, value: Value) -> None:
        """Change a variable."""
        self.build.store(value, place)

    # ---- vectors

    def spread(self, scalar: Value) -> Value:
        """Return a vector with the same number in all lanes."""
        kind = ir.VectorType(scalar.type, self.lanes)
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.build.insert_element(nothing, scalar, I32(0))
        return self.build.shuffle_vector(
            first, nothing, ir.Constant(self.indices, [0] * self.lanes)
        )

    def floats(self, value: float) -> Value:
        """Return a constant vector."""
        return ir.Constant(self.vector, [value] * self.lanes)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return ``a * b + c``, rounded once where the machine can."""
        if not self.fused:
            return self.build.fadd(self.build.fmul(a, b), c)
        return self.build.call(self._intrinsic("llvm.fma", 3), [a, b, c])

    def maximum(self, a: Value, b: Value) -> Value:
        """Return the larger number; not a number where ``b`` is not one."""
        return self.build.select(self.build.fcmp_ordered(">", a, b), a, b)

    def masked(self, value: Value, place: Value) -> Value:
        """Return a vector with zeros where the line at ``place`` has no bits."""
        bits = self.load(self.indices, place, self.line)
        kept = self.build.and_(self.build.bitcast(value, self.indices), bits)
        return self.build.bitcast(kept, self.vector)

    def gather(self, pointers: Value, inside: Value, beyond: Value) -> Value:
        """Read every lane from its own address, where it is inside."""
        kinds = [pointers.type, I32, inside.type, self.vector]
        name = f"llvm.masked.gather.v{self.lanes}f32.v{self.lanes}p0"
        kind = ir.FunctionType(self.vector, kinds)
        known = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        return self.build.call(known, [pointers, I32(FLOAT), inside, beyond])

    def write_some(self, value: Value, place: Value, inside: Value) -> None:
        """Write the lanes that are inside."""
        kinds = [self.vector, POINTER, I32, inside.type]
        name = f"llvm.masked.store.v{self.lanes}f32.p0"
        kind = ir.FunctionType(ir.VoidType(), kinds)
        known = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        self.build.call(known, [value, place, I32(FLOAT), inside])

    def fetch(self, place: Value, level: int) -> None:
        """Ask for a line that will be needed: 3 into the first-level cache, 2 into the second."""
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        known = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        self.build.call(known, [place, I32(0), I32(level), I32(1)])

    def publish(self, value: Value, place: Value) -> None:
        """Store a word so that whoever sees it sees all stores before it."""
        store = ir.instructions.StoreAtomicInstr(self.build.block, value, place, "release", WORD)
        self.build._insert(store)  # the builder's own method knows typed pointers only

    def call(self, function: Value, kind: Type, arguments: list[Value]) -> None:
        """Call a function by its address."""
        self.build.call(_Callee(function, kind), arguments)

    def _intrinsic(self, name: str, arity: int) -> Value:
        full = f"{name}.v{self.lanes}f32"
        known = self.module.globals.get(full)
        kind = ir.FunctionType(self.vector, [self.vector] * arity)
        return known or ir.Function(self.module, kind, full)

    # ---- flow

    @contextmanager
    def loop(self, count: Value, step: int = 1) -> Generator[Value]:
        """Run what stands inside for 0, ``step``, ... below ``count``."""
        index = self.variable(I64, I64(0))
        head, body, after = (self.function.append_basic_block() for _ in range(3))
        self.build.branch(head)
        self.build.position_at_end(head)
        now = self.get(index, I64)
        self.build.cbranch(self.build.icmp_signed("<", now, count), body, after)
        self.build.position_at_end(body)
        yield now
        self.set(index, self.build.add(now, I64(step)))
        self.build.branch(head)
        self.build.position_at_end(after)

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Run what stands inside if a condition holds."""
        with self.build.if_then(condition):
            yield
