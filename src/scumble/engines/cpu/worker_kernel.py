"""The code that every thread runs: its list of calls, each after what it waits for."""

from dataclasses import dataclass
from enum import IntEnum

from llvmlite import ir

from scumble.engines.cpu.emitter import I64, POINTER, Emitter, Value
from scumble.engines.cpu.target import Target


class Program(IntEnum):
    """Words that a thread is started with."""

    CALLS = 0  # how many
    LIST = 1
    DONE = 2  # address of this thread's own count of calls done
    STOP = 3  # address of a word that is not 0 when all shall stop
    YIELD = 4  # address of a function that lets others run


class Call(IntEnum):
    """Words of a call."""

    FUNCTION = 0  # 0 to wait only
    ARGUMENTS = 1
    WAIT = 2  # address of another thread's count; 0 to wait for nothing
    UNTIL = 3  # what the count must reach


CALL_BYTES = 8 * len(Call)
PATIENCE = 4096  # looks at a count before others are let run


@dataclass(frozen=True)
class WorkerKernel:
    """Runs a list of calls; all waits are for calls of other threads that wait for less."""

    name = "worker"

    def assembly(self, target: Target) -> str:
        """Return the code."""
        emit = Emitter(self.name, target)
        build = emit.build
        done, stop = emit.address(Program.DONE), emit.address(Program.STOP)
        calls, rest = emit.address(Program.LIST), emit.address(Program.YIELD)
        action = ir.FunctionType(ir.VoidType(), [POINTER, POINTER])
        with emit.loop(emit.argument(Program.CALLS)) as index:
            call = emit.at(calls, emit.times(index, I64(CALL_BYTES)))
            awaited = emit.argument(Call.WAIT, call)
            with emit.when(build.icmp_signed("!=", awaited, I64(0))):
                self._wait(
                    emit,
                    build.inttoptr(awaited, POINTER),
                    emit.argument(Call.UNTIL, call),
                    stop,
                    rest,
                )
            stopped = build.load_atomic(stop, "monotonic", 8, typ=I64)
            running = build.icmp_signed("==", stopped, I64(0))
            function = emit.argument(Call.FUNCTION, call)
            with emit.when(build.and_(running, build.icmp_signed("!=", function, I64(0)))):
                pointer = build.inttoptr(function, POINTER)
                arguments = [emit.address(Call.ARGUMENTS, call), emit.scratch]
                emit.call(pointer, action, arguments)
            emit.publish(build.add(index, I64(1)), done)
        return emit.finish()

    @staticmethod
    def _wait(emit: Emitter, place: Value, until: Value, stop: Value, rest: Value) -> None:
        build = emit.build
        looks = emit.variable(I64, I64(0))
        emit.set(looks, I64(0))
        head, look, patient, give_way, after = (
            emit.function.append_basic_block() for _ in range(5)
        )
        build.branch(head)
        build.position_at_end(head)
        count = build.load_atomic(place, "acquire", 8, typ=I64)
        stopped = build.load_atomic(stop, "monotonic", 8, typ=I64)
        ready = build.or_(
            build.icmp_signed(">=", count, until), build.icmp_signed("!=", stopped, I64(0))
        )
        build.cbranch(ready, after, look)
        build.position_at_end(look)
        seen = build.add(emit.get(looks, I64), I64(1))
        emit.set(looks, seen)
        build.cbranch(build.icmp_signed("<", seen, I64(PATIENCE)), patient, give_way)
        build.position_at_end(patient)
        build.branch(head)
        build.position_at_end(give_way)
        emit.call(rest, ir.FunctionType(ir.VoidType(), []), [])
        build.branch(head)
        build.position_at_end(after)
