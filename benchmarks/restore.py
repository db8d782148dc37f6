"""Time `scumble restore` on whole folders, and watch its memory and how busy its engine is.

    python benchmarks/restore.py                                # everything, some six minutes
    python benchmarks/restore.py --photos 3 --rounds 1 --small 40 --big 600x400   # a rehearsal

Three measurements, each of whole processes from their start to their end:

- folder: a folder of 320x240 photos with CARN x4 dense, with the same pruned to 4:32 by magnitude
  (an eighth of its multiply-accumulates), and dense by a plain script in PyTorch; in turns.
- small: 500 JPEGs of 160x120 with the pruned network: how busy the engine is, and the memory while
  the first 100 and the last 100 are written.
- big: a photo of 24 megapixels to one of 384, and the most memory that this took.

The photos are cut from those of scikit-image. A run of everything is written to
results/<version>/restore-<machine>.json; any other only where -o says.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from scumble.bench.machine import Watch, cores, machine, processor, versions
from skimage import data

import scumble
from machine import describe
from scumble.bench import case_of
from scumble.bench.measure import Spread, ratio

PATTERN = "4:32"
PAUSE = 1.0  # seconds between two contestants
SAMPLE = 0.1  # seconds between two looks at the memory
EDGE = 100  # pictures at the beginning and at the end whose memory is compared


def photos(folder: Path, count: int, width: int, height: int) -> Path:
    """Write crops of the photos of scikit-image, enlarged where they are too small."""
    folder.mkdir()
    sources = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    chance = np.random.default_rng(0)
    for number in range(count):
        image = Image.fromarray(sources[number % len(sources)])
        factor = max(1.0, width / image.width, height / image.height)
        image = image.resize((round(image.width * factor), round(image.height * factor)))
        left = int(chance.integers(0, image.width - width + 1))
        top = int(chance.integers(0, image.height - height + 1))
        crop = image.crop((left, top, left + width, top + height))
        crop.save(folder / f"{number:04}.jpg", quality=92)
    return folder


def restore(model: str, source: Path, out: Path) -> list[str]:
    """Return the command that restores a folder."""
    command = [sys.executable, "-m", "scumble", "restore", "-i", str(source), "-o", str(out)]
    return [*command, "-n", model, "--json"]


def plain(model: str, source: Path, out: Path) -> list[str]:
    """Return the command that restores a folder in plain PyTorch."""
    script = Path(__file__).with_name("plain_torch.py")
    return [sys.executable, str(script), model, str(source), str(out)]


def timed(command: list[str]) -> float:
    """Return the seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure_folder(work: Path, pruned: str, count: int, rounds: int, watch: Watch) -> dict:
    """Return the times of the contestants, in turns."""
    source = photos(work / "folder", count, 320, 240)
    contestants: dict[str, Callable[[Path], list[str]]] = {
        "restore dense": lambda out: restore("carn-x4", source, out),
        f"restore {PATTERN}": lambda out: restore(pruned, source, out),
        "plain torch dense": lambda out: plain("carn-x4", source, out),
    }
    for name, command in contestants.items():  # code is compiled and remembered, files are read
        timed(command(work / f"warm {name}"))
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name, command in contestants.items():
            watch.sleep(PAUSE)
            times[name].append(timed(command(work / f"{turn} {name}")))
            print(f"{name}: {times[name][-1]:.1f} s", flush=True)
    fast = times[f"restore {PATTERN}"]
    return {
        "photos": f"{count} of 320x240",
        "rounds": rounds,
        "seconds": {name: Spread.of(found).to_json() for name, found in times.items()},
        f"restore {PATTERN} as fast as restore dense": ratio(
            fast, times["restore dense"]
        ).to_json(),
        f"restore {PATTERN} as fast as plain torch dense": ratio(
            fast, times["plain torch dense"]
        ).to_json(),
    }


def measure_small(work: Path, pruned: str, count: int) -> dict:
    """Return how busy the engine is with many small photos, and how the memory behaves."""
    source, out = photos(work / "small", count, 160, 120), work / "small out"
    process = subprocess.Popen(restore(pruned, source, out), stdout=subprocess.PIPE, text=True)
    seen: list[tuple[int, float]] = []
    while process.poll() is None:
        time.sleep(SAMPLE)
        done = sum(name.endswith(".jpg") for name in os.listdir(out)) if out.exists() else 0
        if done > 0:
            seen.append((done, resident(process.pid)))
    assert process.stdout is not None
    told = json.loads(process.stdout.read())
    edge = min(EDGE, count // 2)
    first = [memory for done, memory in seen if done <= edge and memory]
    last = [memory for done, memory in seen if done > count - edge and memory]
    return {
        "photos": f"{count} of 160x120",
        "network": f"carn-x4 {PATTERN}",
        "engine_busy": told["engine_busy"],
        "seconds": told["seconds"],
        "resident_mib": {
            f"while the first {edge} are written": round(statistics.median(first)),
            f"while the last {edge} are written": round(statistics.median(last)),
        },
    }


def resident(process: int) -> float:
    """Return the MiB of memory that a process has; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    found = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")]
    return found[0] if found else 0.0


def measure_big(work: Path, pruned: str, width: int, height: int) -> dict:
    """Return time and memory of one big photo."""
    source = photos(work / "big", 1, width, height)
    process = subprocess.Popen(
        restore(pruned, source, work / "big out"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.read())
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    with Image.open(work / "big out" / "0000.jpg") as made:
        size = made.size
    return {
        "photo": f"{width}x{height}",
        "made": f"{size[0]}x{size[1]}",
        "network": f"carn-x4 {PATTERN}",
        "seconds": told["seconds"],
        "engine_busy": told["engine_busy"],
        "most_memory_gib": round(used.ru_maxrss / 2**20, 2),
    }


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--photos", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", type=int, default=500)
    parser.add_argument("--big", default="6000x4000", help="WIDTHxHEIGHT")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if all(value == parser.get_default(key) for key, value in vars(given).items()):
        results = Path(__file__).parent / "results" / scumble.__version__
        given.output = results / f"restore-{cores()}-core-{processor()}.json"
    # Bombs are refused by the command; a photo made here is none.
    Image.MAX_IMAGE_PIXELS = None
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        pruned = str(work / "pruned.safetensors")
        scumble.save(case_of("carn-x4", scumble.load("carn-x4"), PATTERN).module, pruned)
        result: dict = {"machine": machine() | {"commit": describe("cpu")["commit"]}}
        result["versions"] = versions() | {"command": describe("cpu")["command"]}
        result["folder"] = measure_folder(work, pruned, given.photos, given.rounds, watch)
        result["small"] = measure_small(work, pruned, given.small)
        width, height = map(int, given.big.split("x"))
        result["big"] = measure_big(work, pruned, width, height)
        result["machine_busy_with_others"] = watch.busy
    print(json.dumps(result, indent=2))
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
