"""Measure what tiles change for RFDN, whose attention looks at the whole picture.

PYTHONPATH=. python benchmarks/whole_picture.py WEIGHTS/RFDN_AIM.pth
"""

import sys
from pathlib import Path

import numpy as np
from skimage import data
from tests.foreign import load_rfdn_aim

from scumble.restore import Restorer

TILES = (192, 256)


def main() -> None:
    """Print how a picture in tiles differs from the whole one."""
    network = load_rfdn_aim(Path(sys.argv[1]))
    picture = np.ascontiguousarray(data.astronaut()[:384, :448])
    whole = Restorer(network, engine="reference", tile=4096).image(picture).astype(int)
    for tile in TILES:
        tiled = Restorer(network, engine="reference", tile=tile).image(picture).astype(int)
        error = abs(tiled - whole)
        psnr = 10 * np.log10(255**2 / (error**2).mean())
        changed = (error > 0).mean()
        print(f"tiles of {tile}: {psnr:.1f} dB from the whole, {changed:.1%} of values changed,")
        print(f"  by {error.mean():.2f} levels in the mean, by {error.max()} at most")


if __name__ == "__main__":
    main()
