"""How fast this machine multiplies and adds: the bound that every figure is held against."""

import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from functools import cache

from scumble.engines.cpu.compiler import Library, to_object
from scumble.engines.cpu.target import Target, available
from scumble.errors import EngineError

RUNS = 5
_TRIAL = 200_000  # trips, to learn how long one takes

Loop = Callable[[int, int], None]


def fma_peak(threads: int, seconds: float = 0.2) -> float:
    """Return the most floating-point operations per second that ``threads`` threads do at once.

    Nothing but fused multiply-adds between registers, in the widest vectors there are; the
    median of several runs that together last ``seconds``.
    """
    if threads < 1:
        raise EngineError(f"a peak is measured on at least 1 thread, got {threads}")
    found = available()
    if not found:
        raise EngineError("the peak is measured on x86-64 and 64-bit ARM, this machine is neither")
    target = found[0]
    _rate(target, threads, _TRIAL)  # wakes the cores up
    per_trip = _flops(target) * threads / _rate(target, threads, _TRIAL)
    trips = max(_TRIAL, int(seconds / RUNS / per_trip))
    return statistics.median(_rate(target, threads, trips) for _ in range(RUNS))


def _rate(target: Target, threads: int, trips: int) -> float:
    """Return the operations per second of all threads, from the first start to the last end."""
    loop, _ = _loop(target)
    start_line = threading.Barrier(threads)
    spans: list[tuple[float, float]] = []

    def run() -> None:
        result = (ctypes.c_float * target.lanes)()
        start_line.wait()
        start = time.perf_counter()
        loop(trips, ctypes.addressof(result))
        spans.append((start, time.perf_counter()))

    team = [threading.Thread(target=run) for _ in range(threads)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    starts, ends = zip(*spans, strict=True)
    return threads * trips * _flops(target) / (max(ends) - min(starts))


def _flops(target: Target) -> int:
    """Return the operations of one trip through the loop."""
    return 2 * target.most_sums * target.lanes


@cache
def _loop(target: Target) -> tuple[Loop, Library]:
    """Return the loop and the library that it lives in."""
    library = Library(target)
    library.add([to_object(_assembly(target), target)])
    # Called through ctypes, which lets go of Python's lock.
    form = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
    return form(library.function("peak")), library


def _assembly(target: Target) -> str:
    """Return the loop in LLVM's language.

    for trip in range(trips):
        sum[0] = sum[0] * factor + term
        ...
        sum[k] = sum[k] * factor + term
    """
    vector = f"<{target.lanes} x float>"
    count = target.most_sums
    # The first sums differ, so that no two are the same computation.
    first = [_vector(float(k), target.lanes) for k in range(count)]
    factor, term = _vector(0.5, target.lanes), _vector(1.0, target.lanes)
    sums = "\n".join(
        f"  %s{k} = phi {vector} [ {first[k]}, %entry ], [ %n{k}, %loop ]" for k in range(count)
    )
    steps = "\n".join(
        f"  %n{k} = call {vector} @llvm.fmuladd.v{target.lanes}f32"
        f"({vector} %s{k}, {vector} {factor}, {vector} {term})"
        for k in range(count)
    )
    total = "\n".join(
        f"  %t{k} = fadd {vector} {f'%t{k - 1}' if k else 'zeroinitializer'}, %n{k}"
        for k in range(count)
    )
    return f"""
declare {vector} @llvm.fmuladd.v{target.lanes}f32({vector}, {vector}, {vector})

define void @peak(i64 %trips, ptr %result) {{
entry:
  br label %loop
loop:
  %trip = phi i64 [ 0, %entry ], [ %next, %loop ]
{sums}
{steps}
  %next = add i64 %trip, 1
  %more = icmp slt i64 %next, %trips
  br i1 %more, label %loop, label %end
end:
{total}
  store {vector} %t{count - 1}, ptr %result, align 4
  ret void
}}
"""


def _vector(value: float, lanes: int) -> str:
    return f"<{', '.join([f'float {value:e}'] * lanes)}>"
