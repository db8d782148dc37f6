"""Time the cpu engine beside the best dense engines, on the networks of the speed targets.

    python benchmarks/cpu_engine.py                             # everything, about an hour
    python benchmarks/cpu_engine.py --networks edsr-x4 --patterns 2:32 --rounds 3

A run of everything is written to results/<version>/cpu-engine-<machine>.json; any other only
where -o says. CARN also runs with the patterns that SLS found for it: an N of its own for every
layer. Such a mixture should take what its layers would at their N, so it is held against the
uniform patterns: the mean of their times, each layer weighted with its MACs.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from torch import nn

import scumble
from machine import describe
from scumble.bench import Case, Contestant, Report, Row, bench, case_of, prune_layers, race
from scumble.bench.measure import Spread
from scumble.bench.report import LEGEND
from scumble.cli.networks import open_trained
from scumble.machine import cores, processor
from scumble.nn.surgery import choose

M = 32
NETWORKS = ("edsr-x4", "carn-x4", "rfdn-x4")
PATTERNS = ("2:32", "4:32", "8:32", "16:32", "dense")
ENGINES = ("cpu", "torch", "onnxruntime", "openvino")
SIZE = (180, 320)

# N of 32 that SLS found for CARN x4, layer by layer: three blocks of six 3x3 and three 1x1
# convolutions, three 1x1 around them, two of the upsampler.
MIXED = {
    "carn-x4": {
        "SLS 1/8": "2 1 1 1 1 1 5 3 5  3 2 2 2 2 2 6 5 4  2 3 2 2 2 2 7 5 5  9 7 13  8 4",
        "SLS 1/16": "1 1 1 1 1 1 3 2 3  1 1 1 1 1 1 3 2 2  1 1 1 1 1 1 3 2 2  5 4 10  5 2",
    }
}
# The uniform patterns whose times a mixture is held against.
KNOTS = (1, 2, 4, 8, 16, M)


def mixtures(name: str, network: nn.Module) -> dict[str, list[int]]:
    """Return the N of every prunable layer, for each mixture known for a network."""
    return {title: [int(n) for n in text.split()] for title, text in MIXED.get(name, {}).items()}


def mixed_case(name: str, network: nn.Module, title: str, counts: list[int]) -> Case:
    """Return a network with an N of its own for every layer."""
    return Case(name, title, prune_layers(network, counts, M).eval())


def expected(counts: Sequence[int], macs: Sequence[int], times: dict[int, float]) -> float:
    """Return the time that a mixture should take, by those of the uniform patterns.

    >>> expected([1, 3], [100, 300], {1: 10.0, 2: 12.0, 4: 16.0})
    13.0
    """
    each = np.interp(counts, sorted(times), [times[n] for n in sorted(times)])
    return float(np.average(each, weights=macs))


def hold_mixtures(
    name: str, network: nn.Module, engine: str, threads: int, size: tuple[int, int], rounds: int
) -> list[dict]:
    """Return how the time of each mixture compares with what the uniform patterns foretell."""
    wanted = mixtures(name, network)
    prunable = choose(network, M)
    layers = {layer.name: layer for layer in scumble.inspect(network, size).cost.layers}
    macs = [layers[layer].dense_macs for layer in prunable]
    # At N = M a layer is dense: every engine may run it as it likes.
    uniform = {n: case_of(name, network, "dense" if n == M else f"{n}:{M}") for n in KNOTS}
    mixed = {title: mixed_case(name, network, title, counts) for title, counts in wanted.items()}
    cases = [*uniform.values(), *mixed.values()]
    rows = race([Contestant(case, engine, threads) for case in cases], size, rounds)
    by_pattern = {row.pattern: row for row in rows}
    at = {n: by_pattern[case.pattern].times for n, case in uniform.items()}
    found = []
    for title, counts in wanted.items():
        row = by_pattern[title]
        foretold = [
            expected(counts, macs, {n: times[turn] for n, times in at.items()})
            for turn in range(rounds)
        ]
        found.append(
            {
                "network": name,
                "pattern": title,
                "engine": engine,
                "threads": threads,
                "layers": counts,
                "ms": Spread.of([1000 * time for time in row.times]).to_json(),
                "expected_ms": Spread.of([1000 * time for time in foretold]).to_json(),
                "share_of_expected": Spread.of(
                    [time / hoped for time, hoped in zip(row.times, foretold, strict=True)]
                ).to_json(),
            }
        )
    return found


def measure(given: argparse.Namespace) -> dict:
    """Return the figures that the command line asks for; write them network by network."""
    console = Console(width=120)
    threads = [int(count) for count in given.threads.split(",")]
    rows: list[Row] = []
    held: list[dict] = []
    result: dict = {}
    for name in given.networks.split(","):
        network = open_trained(name)
        cases = [case_of(name, network, pattern) for pattern in given.patterns.split(",")]
        known = mixtures(name, network) if given.mixed else {}
        cases += [mixed_case(name, network, title, counts) for title, counts in known.items()]
        report = bench(cases, given.engines.split(","), threads, given.size, given.rounds)
        console.print(*report.tables(), report.warning() or "")
        rows += report.rows
        for count in threads if known else ():
            held += hold_mixtures(
                name, network, given.engines.split(",")[0], count, given.size, given.rounds
            )
            for one in held[-len(known) :]:
                told = one["share_of_expected"]["median"]
                print(f"{name} {one['pattern']}, {count} threads: {told} of the time foretold")
        result = Report(given.size, given.rounds, rows).to_json() | {"mixtures": held}
        result["machine"]["commit"] = describe("cpu")["commit"]
        if given.output:
            given.output.parent.mkdir(parents=True, exist_ok=True)
            given.output.write_text(json.dumps(result, indent=2) + "\n")
    console.print(LEGEND, highlight=False)
    return result


def home() -> Path:
    """Return the file that the figures of this machine belong to."""
    folder = Path(__file__).parent / "results" / scumble.__version__
    return folder / f"cpu-engine-{cores()}-core-{processor()}.json"


def size_of(text: str) -> tuple[int, int]:
    """Return height and width from WIDTHxHEIGHT."""
    width, height = text.split("x")
    return int(height), int(width)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help="the first is held to mixtures"
    )
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--size", type=size_of, default=SIZE, help="WIDTHxHEIGHT")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-mixed", dest="mixed", action="store_false", help="uniform only")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    untouched = all(value == parser.get_default(key) for key, value in vars(given).items())
    if untouched:
        given.output = home()
    measure(given)


if __name__ == "__main__":
    main()
