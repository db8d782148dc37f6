"""Restore a folder of JPEGs as one would without Scumble's engine: PyTorch, one after the other.

python benchmarks/plain_torch.py MODEL IN OUT
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import scumble


def main() -> None:
    """Restore the folder that the command line names."""
    model, source, target = sys.argv[1:]
    network, out = scumble.load(model).eval(), Path(target)
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(source).iterdir()):
        with Image.open(path) as image:
            pixels = torch.from_numpy(np.asarray(image.convert("RGB")).copy())
        with torch.inference_mode():
            made = network(pixels.permute(2, 0, 1).unsqueeze(0) / 255)[0]
        made = (made * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0)
        Image.fromarray(made.numpy()).save(out / path.name, quality=95, subsampling=0)


if __name__ == "__main__":
    main()
