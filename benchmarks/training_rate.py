"""Count training steps a second *with* data: photos decoded, crops cut, everything a run does.

    python benchmarks/training_rate.py PHOTOS -o results.json          # CARN x4, batch 16, 48x48

Dense and SLS run one after the other; the first steps, in which things are compiled, do not count.
"""

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path

import torch

from machine import describe
from scumble.recipe import read_recipe
from scumble.training.run import TrainingRun

PARTS = 12  # of a run, each of which is one measurement


def rate(name: str, photos: str, start: str, steps: int, batch: int) -> dict:
    """Return the steps a second of a run of one of our recipes."""
    every = steps // PARTS
    changes = [
        f"data.photos={photos}",
        f"train.steps={steps}",
        f"train.batch={batch}",
        f"watch.log_every={every}",
        f"watch.save_every={steps}",
        f"watch.validate_every={steps}",
    ]
    recipe = read_recipe(name, changes + ([f"network.start={start}"] if start else []))
    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun(recipe, Path(folder))
        times = []
        for event in run.events():
            times.append((event.step, event.seconds))
            if event.step + every >= steps:
                break  # before the last step, which validates and saves
    pairs = itertools.pairwise(times)
    rates = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairs]
    low, middle, high = statistics.quantiles(rates, n=4)
    return {
        "recipe": name,
        "batch": batch,
        "steps_a_second": {
            "median": round(middle, 1),
            "quartiles": [round(low, 1), round(high, 1)],
        },
    }


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photos")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    rows = []
    for name, start in (("carn-x4-short", ""), ("carn-x4-8th-short", "carn-x4")):
        rows.append(rate(name, given.photos, start, given.steps, given.batch))
        print(name, rows[-1]["steps_a_second"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = {"machine": describe(device), "rows": rows}
    if given.output:
        given.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
