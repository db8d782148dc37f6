"""From networks and engines to figures: everybody ready, then round after round."""

import itertools
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from scumble.bench.cases import Case
from scumble.bench.measure import ratio, take_turns, turns_of, warm_up
from scumble.bench.peers import PEERS, check_library
from scumble.bench.process import Child, started
from scumble.bench.report import Report, Row
from scumble.bench.stage import Stage
from scumble.bench.watch import Watch
from scumble.engines import ENGINES
from scumble.engines.cpu.peak import fma_peak
from scumble.errors import EngineError
from scumble.machine import cores
from scumble.registry import unknown_name

Told = Callable[[str, int, int], None]  # what goes on, turns done, turns in all


@dataclass(frozen=True)
class Contestant:
    """An engine that runs a case on some threads."""

    case: Case
    engine: str
    threads: int

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.case}, {self.engine} on {threads}"


def check_engines(engines: Sequence[str], threads: Sequence[int]) -> None:
    """Refuse engines that nobody knows or that are not installed, and threads without a core."""
    for engine in engines:
        if engine not in ENGINES and engine not in PEERS:
            raise unknown_name("engine", engine, [*ENGINES, *PEERS])
        check_library(engine)
    for count in threads:
        if not 1 <= count <= cores():
            raise EngineError(f"timing needs 1 to {cores()} threads on this machine, got {count}")


def bench(
    cases: Sequence[Case],
    engines: Sequence[str],
    threads: Sequence[int],
    size: tuple[int, int] = (180, 320),
    rounds: int = 9,
    told: Told = lambda what, done, total: None,
) -> Report:
    """Return how fast each engine runs each case; those of one case take turns.

    Args:
        cases: the networks, such as ``case_of("carn-x4", network, "4:32")``.
        engines: of scumble, or of others: torch, onnxruntime, openvino.
        threads: how many threads each of them runs on.
        size: height and width of the picture.
        rounds: how often each is timed.
        told: called with what goes on, how many turns are done, and of how many.
    """
    check_engines(engines, threads)
    turns = rounds * len(engines) * len(threads)
    rows: list[Row] = []
    for index, case in enumerate(cases):

        def tell(what: str, done: int, total: int, before: int = index * turns) -> None:
            told(what, before + done, turns * len(cases))

        contestants = [Contestant(case, engine, count) for count in threads for engine in engines]
        rows += race(contestants, size, rounds, tell)
    return Report(size, rounds, rows)


def race(
    contestants: Sequence[Contestant],
    size: tuple[int, int],
    rounds: int,
    told: Told = lambda what, done, total: None,
) -> list[Row]:
    """Return the figures of contestants that take turns with each other."""
    check_engines([one.engine for one in contestants], [one.threads for one in contestants])
    total = rounds * len(contestants)
    done = itertools.count(1)
    counts = {one.threads for one in contestants}
    before = {count: fma_peak(count) for count in counts}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stages = _stages(contestants, size, Path(folder))
        ready: list[_Ready] = []
        for one in contestants:
            told(f"starting {one}", 0, total)
            ready.append(_start(one, stages[one.case], stack))
        children = [one.child for one in ready]
        runs = [turns_of(warm_up(child)) for child in children]
        watch = Watch()
        times = take_turns(
            children, runs, rounds, lambda: told("taking turns", next(done), total), watch.sleep
        )
        peaks = {count: max(before[count], fma_peak(count)) for count in counts}
        figures = zip(contestants, ready, runs, times, strict=True)
        rows = [_row(*figure, peaks[figure[0].threads], watch.busy) for figure in figures]
    return [beside_fastest_peer(row, rows) for row in rows]


@dataclass(frozen=True)
class _Ready:
    """A contestant at the start, which has made the right picture."""

    child: Child
    stage: Stage
    difference: float


def _start(one: Contestant, stage: Stage, stack: ExitStack) -> _Ready:
    """Start the process of a contestant and look at its first picture."""
    stage.prepare(one.engine)
    child = stack.enter_context(started(str(one), one.engine, one.threads, stage.files))
    return _Ready(child, stage, stage.difference(child.picture(), str(one)))


def _row(
    one: Contestant,
    ready: _Ready,
    iterations: int,
    times: Sequence[float],
    peak_flops: float,
    others_busy: float | None,
) -> Row:
    return Row(
        network=one.case.network,
        pattern=one.case.pattern,
        engine=one.engine,
        threads=one.threads,
        macs=ready.stage.macs,
        dense_macs=ready.stage.dense_macs,
        iterations=iterations,
        times=times,
        difference=ready.difference,
        ready_seconds=ready.child.ready_seconds,
        base_mib=ready.child.base_mib,
        peak_mib=ready.child.peak_mib(),
        peak_flops=peak_flops,
        others_busy=others_busy,
    )


def beside_fastest_peer(row: Row, rows: Sequence[Row]) -> Row:
    """Return a row with how it stands to the fastest peer on as many threads, round by round."""
    key = row.network, row.pattern, row.threads
    peers = [
        other
        for other in rows
        if other.engine in PEERS and (other.network, other.pattern, other.threads) == key
    ]
    if not peers:
        return row
    fastest = min(peers, key=lambda other: other.time.median)
    return replace(row, peer=fastest.engine, ratio=ratio(row.times, fastest.times))


def _stages(
    contestants: Sequence[Contestant], size: tuple[int, int], folder: Path
) -> dict[Case, Stage]:
    """Return the stage of every case."""
    stages: dict[Case, Stage] = {}
    for one in contestants:
        if one.case not in stages:
            stages[one.case] = Stage(one.case, size, folder / str(len(stages)))
    return stages
