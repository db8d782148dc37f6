"""The memory that training takes when its photos do not fit into it.

    python benchmarks/many_photos.py --photos 100 --memory 1 -o results.json

Photos of 24 megapixels are decoded into the run's file and trained on by a tiny network; what the
process has in memory is watched all the while.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

from machine import describe
from scumble.recipe import make_recipe
from scumble.training.run import TrainingRun

WIDTH, HEIGHT = 6000, 4000
DIFFERENT = 4  # photos that are drawn; the others are their copies under other names


def draw(folder: Path, count: int) -> None:
    """Write photos of smooth noise, and give each several names."""
    for index in range(min(count, DIFFERENT)):
        chance = np.random.default_rng(index)
        coarse = chance.integers(0, 256, (HEIGHT // 40, WIDTH // 40, 3), dtype=np.uint8)
        picture = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        picture.save(folder / f"{index}.jpg", quality=90)
    for index in range(DIFFERENT, count):
        os.link(folder / f"{index % DIFFERENT}.jpg", folder / f"{index}.jpg")


def resident() -> int:
    """Return the bytes of this process that are in memory, those of mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Watch(threading.Thread):
    """Looks at the memory until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.stopped = 0, False

    def run(self) -> None:
        """Look a hundred times a second."""
        while not self.stopped:
            now = resident()
            self.most = max(self.most, now)
            time.sleep(0.01)

    def take(self) -> int:
        """Return the most since the last time."""
        most, self.most = self.most, 0
        return most


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--memory", type=float, default=1.0, help="GB: data.memory_gb")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        photos.mkdir()
        draw(photos, given.photos)
        before = resident()
        watch.start()
        recipe = make_recipe(
            {
                "network": {"name": "edsr-x4", "arguments": {"features": 8, "blocks": 1}},
                "data": {"photos": str(photos), "validation": 0, "memory_gb": given.memory},
                "train": {"steps": given.steps, "batch": 4},
                "watch": {"save_every": given.steps},
            }
        )
        run = TrainingRun(recipe, Path(folder) / "run", device="cpu")
        decoding = watch.take()
        file = sum(path.stat().st_size for path in run.folder.glob("cache/*"))
        for _ in run.events():
            pass
        training = watch.take()
    watch.stopped = True
    row = {
        "photos": given.photos,
        "limit_mib": round(given.memory * 1024),
        "file_mib": file >> 20,  # 0: all photos fit into the limit
        "before_mib": before >> 20,
        "while_decoding_mib": decoding >> 20,
        "while_training_mib": training >> 20,
    }
    print(json.dumps(row))
    if given.output:
        result = {"machine": describe("cpu"), "rows": [row]}
        given.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
