"""Small photos, and a recipe that trains on them in seconds."""

from pathlib import Path

import numpy as np
from PIL import Image

from scumble.recipe import Recipe, make_recipe


def make_photos(folder: Path, count: int = 6, side: int = 48) -> Path:
    """Write smooth random pictures, no two alike."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        chance = np.random.default_rng(index)
        coarse = chance.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        height, width = side + 4 * index, side + 8
        picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        picture.save(folder / f"photo{index}.png")
    return folder


def small_recipe(photos: Path, prune: dict | None = None, **train: object) -> Recipe:
    """Return a recipe for a tiny EDSR x2."""
    return make_recipe(
        {
            "network": {"name": "edsr-x2", "arguments": {"features": 16, "blocks": 1}},
            "data": {"photos": str(photos), "patch": 12, "validation": 0},
            "train": {"steps": 40, "batch": 2, "lr": 1e-3, **train},
            "prune": prune,
            "watch": {"log_every": 4, "validate_every": 20, "save_every": 5},
        }
    )


PRUNE = {
    "m": 16,
    "budget": "1/4",
    "size": (24, 24),
    "pressure": 1e-8,
    "growth": 2.0,
    "look_every": 2,
    "rerank_every": 3,
    "check_every": 1,
    "scores_lr": 0.02,
}
