"""Picture files as arrays, at the depth they have, and sentences about those that are none."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from scumble.errors import ImageError

# Height, width, channels: grey or RGB, then alpha where there is some.
Samples = NDArray[np.uint8 | np.uint16]

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP")

# How the modes of Pillow become samples of 8 bits.
_MODES = {"1": "L", "L": "L", "LA": "LA", "RGB": "RGB", "RGBA": "RGBA", "P": "RGB", "PA": "RGBA"}

# The unpacker that delivers the other byte of each 16-bit sample; N is the machine's own order.
_OTHER_BYTE = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}

# Grey levels of a PNG with few bits are spread over 0..255, its transparent level is not.
_SPREAD = {"L;2": 85, "L;4": 17}


@dataclass(frozen=True)
class Header:
    """What a picture file says of itself at its beginning."""

    format: str  # one of FORMATS
    height: int  # of the upright picture, in pixels
    width: int


def decode(path: Path, content: bytes | None = None) -> Samples:
    """Return the samples of the one picture in a file, upright; ``content`` is what was read."""
    with _opened(path, content) as (file, image):
        if image.format == "PNG":
            image.verify()  # checksums, which decoding alone does not look at
            image = _open(file)
        rawmode = _rawmode(image)
        image.load()
        return np.ascontiguousarray(_upright(_samples(path, file, image, rawmode), _turn(image)))


def decode_size(path: Path) -> tuple[int, int]:
    """Return height and width of the picture in a file, from its header."""
    header = decode_header(path)
    return header.height, header.width


def decode_header(path: Path, content: bytes | None = None) -> Header:
    """Return format, height and width of the picture in a file, without decoding it."""
    with _opened(path, content) as (_, image):
        width, height = image.size
        if _turn(image) in (5, 6, 7, 8):
            width, height = height, width
        # The photo of an MPO file is a JPEG.
        return Header("JPEG" if image.format == "MPO" else image.format or "", height, width)


@contextmanager
def _opened(
    path: Path, content: bytes | None = None
) -> Iterator[tuple[IO[bytes], ImageFile.ImageFile]]:
    """Yield a picture file, and turn whatever goes wrong with it into one sentence."""
    try:
        opened = path.open("rb") if content is None else BytesIO(content)
        with opened as file, warnings.catch_warnings():
            # Of this module only: should threads restore the filters in the wrong order, little
            # is lost. What matters is refused below.
            warnings.filterwarnings("ignore", module="PIL")
            image = _open(file)
            _refuse_kind(path, image)
            yield file, image
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        empty = not content if content is not None else path.stat().st_size == 0
        what = "is empty" if empty else "is none, or damaged at its beginning"
        raise ImageError(
            f"{path} needs to be a PNG, JPEG, WebP, TIFF or BMP file, {what}"
        ) from error
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise ImageError(
            f"{path} needs to hold at most {most:.3g} megapixels, says it holds more; "
            f"cut it into parts"
        ) from error
    except Exception as error:  # readers raise whatever a damaged file makes them stumble over
        if isinstance(error, OSError) and error.strerror:
            raise ImageError(f"{path} cannot be read: {error.strerror}") from error
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ImageError(f"{path} is damaged or cut short: {reason}") from error


def _open(file: IO[bytes]) -> ImageFile.ImageFile:
    file.seek(0)
    return cast(ImageFile.ImageFile, Image.open(file, formats=FORMATS))


def _refuse_kind(path: Path, image: ImageFile.ImageFile) -> None:
    """Refuse pictures that hold something else than one grey or RGB picture of 8 or 16 bits."""
    frames = getattr(image, "n_frames", 1)
    # An MPO file is a JPEG of a camera, with previews behind the photo.
    if frames > 1 and image.format != "MPO":
        raise ImageError(
            f"{path} needs to hold one picture, holds {frames}; save the one you mean by itself"
        )
    kind = image.mode
    if image.format == "TIFF":
        tags = getattr(image, "tag_v2", {})
        bits, planes, lightness = (tags.get(key, 1) for key in (258, 284, 262))
        bits = max(bits) if isinstance(bits, tuple) else bits
        if bits not in (1, 2, 4, 8, 16):
            kind = f"{image.mode} of {bits} bits"
        elif bits == 16 and planes == 2:
            kind = "16 bits in separate planes"
        elif bits == 16 and lightness == 0:
            kind = "16 bits with 0 as white"
    if kind not in _MODES and not kind.startswith("I;16"):
        raise ImageError(
            f"{path} needs to be grey or RGB with 8 or 16 bits, is {kind}; convert it first"
        )


def _samples(path: Path, file: IO[bytes], image: ImageFile.ImageFile, rawmode: str) -> Samples:
    """Return what a picture holds, at full depth."""
    colour = image.info.get("transparency")
    if image.mode.startswith("I;16"):
        samples = np.asarray(image).astype(np.uint16)[:, :, np.newaxis]
    elif ";16" in rawmode:
        samples = _deep_samples(path, file, image, rawmode)
    elif image.mode in ("P", "PA"):
        mode = _MODES[image.mode] if colour is None else "RGBA"
        return np.asarray(image.convert(mode))
    else:
        # Transparency is applied below, once for all kinds.
        image.info.pop("transparency", None)
        samples = np.asarray(image.convert(_MODES[image.mode]))
        samples = samples[:, :, np.newaxis] if samples.ndim == 2 else samples
        if isinstance(colour, int):
            colour *= _SPREAD.get(rawmode, 1)
    return samples if colour is None else _with_transparent(samples, colour)


def _deep_samples(
    path: Path, file: IO[bytes], image: ImageFile.ImageFile, rawmode: str
) -> NDArray[np.uint16]:
    """Return 16-bit colours, which Pillow can only deliver one byte at a time."""
    if rawmode == "LA;16B":
        # As if it were 8-bit RGBA: the two bytes of grey, then the two bytes of alpha.
        halves = _unpacked(file, "RGBA")
        return _joined(halves[:, :, 0::2], halves[:, :, 1::2])
    bands, _, order = rawmode.partition(";16")
    if bands not in ("RGB", "RGBA") or order not in _OTHER_BYTE:
        raise ImageError(
            f"{path} needs 16-bit colours as RGB or RGBA, has {rawmode}; save it as 16-bit PNG"
        )
    low = _unpacked(file, f"{bands};16{_OTHER_BYTE[order]}")
    return _joined(np.asarray(image), low)


def _joined(high: NDArray[np.uint8], low: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return 16-bit samples, given their bytes."""
    return high.astype(np.uint16) * np.uint16(256) + low


def _unpacked(file: IO[bytes], rawmode: str) -> NDArray[np.uint8]:
    """Return a picture as another unpacker of Pillow delivers it."""
    image = _open(file)
    image.tile = [
        tile._replace(args=(rawmode, *tile.args[1:]) if isinstance(tile.args, tuple) else rawmode)
        for tile in image.tile
    ]
    return np.asarray(image)


def _rawmode(image: ImageFile.ImageFile) -> str:
    """Return the name of the unpacker that Pillow chose for a picture."""
    args = image.tile[0].args if image.tile else None
    return str(args[0]) if isinstance(args, tuple) else args or ""


def _turn(image: ImageFile.ImageFile) -> int:
    """Return the EXIF orientation that is left to undo; Pillow itself undoes those of TIFF."""
    if image.format == "TIFF":
        return 1
    # The method of its base class: that of PNG decodes a whole picture to look for EXIF behind it.
    return Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)


def _with_transparent(samples: Samples, colour: int | tuple[int, ...]) -> Samples:
    """Add an alpha channel in which one colour is transparent, all else opaque."""
    opaque = (samples != np.asarray(colour)).any(2, keepdims=True)
    alpha = opaque * np.iinfo(samples.dtype).max
    return np.concatenate([samples, alpha.astype(samples.dtype)], 2)


def _upright(samples: Samples, turn: int) -> Samples:
    """Undo the rotation and mirroring that an EXIF orientation stands for."""
    if turn in (5, 6, 7, 8):
        samples = samples.swapaxes(0, 1)
    if turn in (3, 4, 7, 8):
        samples = samples[::-1]
    return samples[:, ::-1] if turn in (2, 3, 6, 7) else samples
