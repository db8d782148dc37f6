"""What a measurement says, as a table and as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table

from scumble.bench.measure import Spread
from scumble.bench.process import environment
from scumble.machine import command, machine, versions

FLOPS_PER_MAC = 2
BUSY = 0.1  # from here on, others disturb
LEGEND = (
    "ms: median and quartiles of one run. speed: times as fast as the fastest of torch, onnxruntime"
    " and\nopenvino on as many threads. GFLOP/s*: as if no weight were zero; real: of the weights "
    "kept, and their\nshare of this machine's peak. difference: the largest, to the reference's "
    "picture, as a share of its\nrange. ready: from the network in memory to its first picture."
)


@dataclass(frozen=True)
class Row:
    """One contestant's figures."""

    network: str
    pattern: str
    engine: str
    threads: int
    macs: int  # of the weights kept
    dense_macs: int
    iterations: int  # runs in one round
    times: Sequence[float]  # seconds of one run, by round
    difference: float  # largest, to the reference's picture, as a share of that picture's range
    ready_seconds: float  # from the network in memory to its first picture
    base_mib: float | None  # memory of the process before that
    peak_mib: float | None  # and at most
    peak_flops: float  # what this machine can do on as many threads
    others_busy: float | None = None  # share of the machine that was at work between turns
    peer: str | None = None  # the fastest engine of others on as many threads
    ratio: Spread | None = None  # how many times as fast as that peer

    @property
    def time(self) -> Spread:
        """Return the seconds of one run."""
        return Spread.of(self.times)

    @property
    def effective_flops(self) -> float:
        """Return the operations per second that a dense engine would need to be as fast."""
        return FLOPS_PER_MAC * self.dense_macs / self.time.median

    @property
    def real_flops(self) -> float:
        """Return the operations per second on weights that are kept."""
        return FLOPS_PER_MAC * self.macs / self.time.median

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "network": self.network,
            "pattern": self.pattern,
            "engine": self.engine,
            "threads": self.threads,
            "macs": self.macs,
            "dense_macs": self.dense_macs,
            "ms": _milliseconds(self.time).to_json(),
            "ms_by_round": [float(f"{1000 * seconds:.4g}") for seconds in self.times],
            "runs_per_round": self.iterations,
            "fastest_peer": self.peer,
            "times_as_fast": None if self.ratio is None else self.ratio.to_json(),
            "effective_gflops": round(self.effective_flops / 1e9, 1),
            "real_gflops": round(self.real_flops / 1e9, 1),
            "real_share_of_peak": round(self.real_flops / self.peak_flops, 4),
            "peak_gflops": round(self.peak_flops / 1e9, 1),
            "largest_difference": float(f"{self.difference:.3g}"),
            "ready_seconds": round(self.ready_seconds, 3),
            "base_mib": self.base_mib,
            "peak_mib": self.peak_mib,
            "others_busy": None if self.others_busy is None else round(self.others_busy, 3),
        }


@dataclass(frozen=True)
class Report:
    """All figures of one measurement on one machine."""

    size: tuple[int, int]  # height and width of the input
    rounds: int
    rows: Sequence[Row]
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data, with the machine and the versions."""
        threads = sorted({row.threads for row in self.rows})
        return {
            "machine": machine(),
            "versions": versions(),
            "command": command(),
            "date": self.date,
            "width": self.size[1],
            "height": self.size[0],
            "rounds": self.rounds,
            "environment": {
                f"{engine}, {count}": environment(engine, count)
                for engine in dict.fromkeys(row.engine for row in self.rows)
                for count in threads
            },
            "rows": [row.to_json() for row in self.rows],
        }

    def warning(self) -> str | None:
        """Return a sentence if the machine had other work; figures suffer from it."""
        most = max((row.others_busy or 0.0 for row in self.rows), default=0.0)
        if most < BUSY:
            return None
        return f"other work took {most:.0%} of this machine between turns: figures may be far off"

    def tables(self) -> list[Table]:
        """Return the tables that the command prints, one for each case."""
        made: dict[tuple[str, str], Table] = {}
        for row in self.rows:
            case = row.network, row.pattern
            if case not in made:
                made[case] = _empty_table(row, self.size)
            made[case].add_row(row.engine, *_cells(row))
        return list(made.values())


_FIGURES = (
    "threads",
    "ms",
    "quartiles",
    "speed",
    "GFLOP/s*",
    "real",
    "of peak",
    "difference",
    "ready s",
    "MiB",
)


def _empty_table(row: Row, size: tuple[int, int]) -> Table:
    title = (
        f"{row.network} {row.pattern} on {size[1]}x{size[0]}: {row.macs / 1e9:.2f} of "
        f"{row.dense_macs / 1e9:.2f} GMACs"
    )
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("engine")
    for name in _FIGURES:
        table.add_column(name, justify="right")
    return table


def _cells(row: Row) -> list[str]:
    time = _milliseconds(row.time)
    return [
        str(row.threads),
        f"{time.median:.4g}",
        f"{time.low:.4g}-{time.high:.4g}",
        "" if row.ratio is None else f"{row.ratio.median:.2f}x",
        f"{row.effective_flops / 1e9:.0f}",
        f"{row.real_flops / 1e9:.0f}",
        f"{row.real_flops / row.peak_flops:.1%}",
        f"{row.difference:.1e}",
        f"{row.ready_seconds:.2f}",
        "" if row.peak_mib is None else f"{row.peak_mib:.0f}",
    ]


def _milliseconds(seconds: Spread) -> Spread:
    return Spread(1000 * seconds.median, 1000 * seconds.low, 1000 * seconds.high)
