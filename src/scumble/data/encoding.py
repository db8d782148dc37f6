"""Arrays as picture files, and sentences about formats that would lose something."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from scumble.data.decoding import Samples
from scumble.data.png16 import encode_png16
from scumble.errors import ImageError

# Endings of file names, in lower case, and the format they stand for.
ENDINGS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".bmp": "BMP",
}

_SIDES = {"JPEG": 65500, "WEBP": 16383}  # longest side that the format can hold


def encode(path: Path, samples: Samples, quality: int | None = None) -> bytes:
    """Return the content of a picture file in the format that the ending of ``path`` says."""
    name = ENDINGS.get(path.suffix.lower())
    if name is None:
        raise ImageError(
            f"{path} needs an ending that says its format: {', '.join(ENDINGS)}, "
            f"got {path.suffix or 'none'}"
        )
    height, width, channels = samples.shape
    refuse_loss(path, name, (height, width, channels), 8 * samples.itemsize)
    if samples.dtype == np.uint16 and name == "TIFF" and channels > 1:
        raise ImageError(
            f"{path} needs 8 bits or 16-bit grey, because we write no other TIFF, "
            f"got 16 bits in {channels} channels; write PNG"
        )
    if quality is not None and name not in ("JPEG", "WEBP"):
        raise ImageError(f"{path} needs no quality, which is for JPEG and WebP; leave it out")
    if quality is not None and not 1 <= quality <= 100:
        raise ImageError(f"{path} needs a quality of 1 to 100, got {quality}")
    if samples.dtype == np.uint16 and name == "PNG":
        return encode_png16(samples)
    file = BytesIO()
    image = Image.fromarray(samples[:, :, 0] if samples.shape[2] == 1 else samples)
    match name:
        case "JPEG":
            image.save(file, name, quality=quality or 95, subsampling=0 if quality is None else -1)
        case "WEBP" if quality is None:
            image.save(file, name, lossless=True, exact=True)
        case "WEBP":
            image.save(file, name, quality=quality)
        case "TIFF":
            image.save(file, name, compression="tiff_adobe_deflate")
        case _:
            image.save(file, name)
    return file.getvalue()


def refuse_loss(path: Path, name: str, shape: tuple[int, int, int], depth: int) -> None:
    """Refuse a format that cannot hold samples of this height, width, channels and depth."""
    height, width, channels = shape
    if channels in (2, 4) and name in ("JPEG", "BMP"):
        raise ImageError(
            f"{path} needs a picture without alpha, because {name} has none; "
            f"write PNG, WebP or TIFF, or drop the alpha"
        )
    if depth == 16 and name in ("JPEG", "WEBP", "BMP"):
        raise ImageError(
            f"{path} needs a picture of 8 bits, because {name} holds no more, got 16; "
            f"write PNG, or round it first"
        )
    if max(height, width) > _SIDES.get(name, max(height, width)):
        raise ImageError(
            f"{path} needs sides of at most {_SIDES[name]} pixels, because {name} holds no more, "
            f"got {height}x{width}; write PNG"
        )
