"""Prune the zoo's CARN x4 to an eighth, on a handful of photos and an ordinary CPU.

One-shot 4:32 and SLS train for the same number of steps and end at the same cost. A few hundred
steps on seven photos show the method at work; what it really reaches is in the README.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import scumble.zoo
from scumble.evaluate import evaluate
from scumble.training.run import FINAL, TrainingRun
from scumble.training.shortcut import pruning_recipe

PHOTOS = Path(__file__).parent / "photos"
NETWORK = "carn-x4"

# Small crops and quick scores, so that a few minutes are enough.
QUICK = (
    "data.patch=24",
    "data.validation=0",
    "train.batch=4",
    "train.ema=0.98",
    "prune.scores_lr=1e-2",
    "prune.pressure=1e-11",
    "prune.growth=1.5",
    "prune.min_progress=0.6",
    "prune.look_every=10",
    "prune.rerank_every=25",
    "prune.check_every=1",
    "watch.log_every=5",
)


def prune(method: str, steps: int, folder: Path) -> Path:
    """Return the file of the network, pruned to an eighth."""
    recipe = pruning_recipe(NETWORK, PHOTOS / "train", method, "1/8", 32, steps, QUICK)
    run = TrainingRun(recipe, folder / method)

    def progress() -> Iterator[int]:
        for event in run.events():
            yield event.step

    ticks = max(1, steps // recipe.watch.log_every)
    for _ in track(progress(), f"{method:>8}", total=ticks, console=Console(stderr=True)):
        pass
    return run.folder / FINAL


def main() -> None:
    """Prune twice, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=500, help="training steps of each method")
    steps = parser.parse_args().steps
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        files = {"dense": scumble.zoo.find(NETWORK)}
        for name, method in (("one-shot 4:32", "oneshot"), ("SLS 1/8", "sls")):
            files[name] = prune(method, steps, Path(folder))
        table = Table("", "PSNR on held-out photos", "GMACs at 320x180", "parameters", "file")
        for name, file in files.items():
            report = evaluate(str(file), PHOTOS / "held-out")
            assert report.cost is not None
            cost = report.cost.cost
            table.add_row(
                name,
                f"{report.evaluation.mean['psnr']:.2f} dB",
                f"{cost.paper_macs / 1e9:.2f}",
                f"{cost.parameters:,}",
                f"{file.stat().st_size / 1e6:.2f} MB",
            )
        baseline = evaluate("bicubic", PHOTOS / "held-out").evaluation.mean["psnr"]
        table.add_row("bicubic", f"{baseline:.2f} dB")
        Console().print(table)
    print(f"{steps} steps each, {time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
