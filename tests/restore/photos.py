"""Pictures as people have them, and a network whose results can be foretold."""

import io
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageCms
from torch import Tensor, nn

from scumble.restore import Form, Restorer

SCALE = 2


class Nearest(nn.Module):
    """Repeats every pixel."""

    def forward(self, image: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(image, scale_factor=SCALE, mode="nearest")


class Blur(nn.Module):
    """Sees four pixels around each, with zeros around the picture; then repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 5, padding=2)
        self.second = nn.Conv2d(6, 3, 5, padding=2)

    def forward(self, image: Tensor) -> Tensor:
        seen = self.second(torch.relu(self.first(image)))
        return torch.nn.functional.interpolate(seen, scale_factor=SCALE, mode="nearest")


def samples(height: int, width: int, channels: int = 3, depth: int = 8, seed: int = 0):
    """Return smooth colours with some noise, so that JPEG keeps them nearly."""
    chance = np.random.default_rng(seed)
    down, across = np.mgrid[0:height, 0:width]
    planes = [(down * (k + 2) + across * (3 - k)) % 200 for k in range(channels)]
    noisy = np.stack(planes, 2) + chance.integers(0, 20, (height, width, channels))
    return noisy.astype(np.uint8) if depth == 8 else (noisy * 257 + 13).astype(np.uint16)


def image(height: int = 30, width: int = 40, mode: str = "RGB", seed: int = 0) -> Image.Image:
    channels = len(Image.new(mode, (1, 1)).getbands())
    found = samples(height, width, channels, seed=seed)
    return Image.fromarray(found[:, :, 0] if channels == 1 else found, mode=None)


@cache
def profile() -> bytes:
    """Return a colour profile that is nobody's default."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def thumbnail() -> bytes:
    file = io.BytesIO()
    image(12, 16).save(file, "JPEG")
    return file.getvalue()


def nearest(**options) -> Restorer:
    return Restorer(Nearest(), engine="reference", **options)


def restore_one(source: Path, target: Path, form: Form | None = None, **options) -> Path:
    """Restore one file with the network that repeats pixels."""
    (result,) = nearest().folder(source, target, form=form or Form(), **options)
    assert result.status == "done", result.error
    return result.target


def repeated(array: np.ndarray) -> np.ndarray:
    return array.repeat(SCALE, 0).repeat(SCALE, 1)
