"""How long a network takes to be ready on the cpu engine, and the memory that it takes.

    python benchmarks/ready.py edsr-x4 4:32
    python benchmarks/ready.py carn-x4 8:32 --size 960x540
    SCUMBLE_CACHE=$(mktemp -d) python benchmarks/ready.py edsr-x4 4:32     # nothing remembered

Ready: from the network in memory to its first picture, less the time of a second one.
"""

import argparse
import resource
import time

import torch

import scumble
from scumble.bench import case_of
from scumble.cli.networks import open_trained


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network")
    parser.add_argument("pattern")
    parser.add_argument("--size", default="320x180", help="WIDTHxHEIGHT")
    given = parser.parse_args()
    network = case_of(given.network, open_trained(given.network), given.pattern).module
    width, height = (int(side) for side in given.size.split("x"))
    picture = torch.rand(1, 3, height, width)
    start = time.perf_counter()
    fast = scumble.compile(network, engine="cpu")
    fast(picture)
    first = time.perf_counter() - start
    start = time.perf_counter()
    fast(picture)
    second = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    print(f"ready in {first - second:.2f} s, a picture in {1000 * second:.0f} ms, {peak:.0f} MiB")


if __name__ == "__main__":
    main()
