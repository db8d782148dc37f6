"""Put a trained network into the zoo: its file in half precision, what is known of it, its curve.

    python scripts/add_to_zoo.py carn-x4 RUN/best.safetensors --log RUN/log.jsonl \
        --trained "..." --scores Set5.json Set14.json B100.json Urban100.json

The scores are files from `scumble evaluate --json` of this very network. What is known of the
network of the zoo that it started from, if it did, is kept with it; a teacher needs to be told of.
"""

import argparse
import json
from pathlib import Path

import torch

import scumble

ZOO = Path(__file__).parents[1] / "src" / "scumble" / "zoo"
DATA = "604 freely licensed photos: CLIC 2025, CID22, desktop wallpapers, Pixabay"
LICENCE = "Apache-2.0"


def main() -> None:
    """Write the file, the manifest entry and the curve."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--trained", required=True, help="where, how long, how many steps")
    parser.add_argument("--scores", type=Path, nargs="+", required=True)
    parser.add_argument("--teacher", help="which network, by whom, under which licence")
    given = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for path in given.scores:
        report = json.loads(path.read_text())
        of_protocol = results.setdefault(report["protocol"], {})
        of_protocol[Path(report["data"]).name] = round(report["mean"]["psnr"], 3)
    info = scumble.read_info(given.file)
    assert info.recipe is not None
    if bool(info.recipe["train"].get("teacher")) != bool(given.teacher):
        parser.error("--teacher says who the teacher of the recipe is, if it has one")
    network = scumble.load(given.file)
    # Where the photos lay is nobody's business.
    data = {**info.recipe["data"], "photos": Path(info.recipe["data"]["photos"]).name}
    said = {
        "recipe": {**info.recipe, "data": data},
        "data": DATA,
        "licence": LICENCE,
        "results": results,
    }
    target = ZOO / f"{given.name}.safetensors"
    scumble.save(network, target, dtype=torch.float16, **said)
    manifest = json.loads((ZOO / "manifest.json").read_text())
    start = info.recipe["network"]["start"]
    manifest[given.name] = {
        **({"started_from": manifest[start]} if start in manifest else {}),
        **({"teacher": given.teacher} if given.teacher else {}),
        "trained": given.trained,
        "data": DATA,
        "licence": LICENCE,
        "results": results,
        "curve": _curve(given.log),
    }
    (ZOO / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _curve(log: Path) -> list[list[float | None]]:
    """Return step, loss and validation PSNR, at the validations only."""
    events = (json.loads(line) for line in log.read_text().splitlines())
    return [
        [e["step"], round(e["loss"], 5), round(e["psnr"], 3)]
        for e in events
        if e["psnr"] is not None
    ]


if __name__ == "__main__":
    main()
