"""TIFF files of 8 or 16 bits, written strip by strip: Pillow writes no 16-bit colours."""

import struct
import sys
import zlib
from collections.abc import Iterable
from typing import IO

from scumble.data.decoding import Samples
from scumble.errors import ImageError
from scumble.restore.metadata import Metadata
from scumble.restore.tags import BYTE, LONG, ORDERS, RATIONAL, SHORT, UNDEFINED, Folder, read_folder

_ORDER_NAMES = {"<": "little", ">": "big"}
_HEADER = 8
_LARGEST = 2**32 - 1  # what places of 32 bits reach

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_STRIP_PLACES, _ORIENTATION, _SAMPLES, _ROWS, _STRIP_BYTES = 273, 274, 277, 278, 279
_ACROSS, _DOWN, _PLANES, _UNIT, _PREDICTOR, _EXTRA = 282, 283, 284, 296, 317, 338
_XMP, _ICC = 700, 34675
_DEFLATE, _DIFFERENCES, _INCH, _FREE_ALPHA = 8, 2, 2, 2


def write_tiff(
    file: IO[bytes],
    strips: Iterable[Samples],
    shape: tuple[int, int, int],
    depth: int,
    rows: int,
    metadata: Metadata,
) -> None:
    """Write a picture as TIFF, losslessly compressed.

    Args:
        file: where to, from its beginning.
        strips: the rows of the picture from the top, so many at a time.
        shape: height, width and channels.
        depth: bits per sample.
        rows: how many rows each strip but the last has.
        metadata: what else is to be said; numbers stand in the order that its EXIF has.
    """
    folder = _described(metadata)
    _tell_storage(folder, shape, depth, rows)
    unknown = (0,) * -(-shape[0] // rows)
    folder.put(_STRIP_PLACES, LONG, *unknown)
    folder.put(_STRIP_BYTES, LONG, *unknown)
    head = next(head for head, order in ORDERS.items() if order == folder.order)
    head += struct.pack(folder.order + "I", _HEADER)
    file.write(head + folder.packed(_HEADER))
    places, lengths = [], []
    for strip in strips:
        packed = zlib.compress(_differences(strip, folder.order), 6)
        if file.tell() + len(packed) > _LARGEST:
            raise ImageError("a TIFF file holds at most 4 GB, got more; write PNG")
        places.append(file.tell())
        lengths.append(len(packed))
        file.write(packed)
    folder.put(_STRIP_PLACES, LONG, *places)
    folder.put(_STRIP_BYTES, LONG, *lengths)
    file.seek(_HEADER)
    file.write(folder.packed(_HEADER))


def _described(metadata: Metadata) -> Folder:
    """Return EXIF, XMP and the colour profile where TIFF has them."""
    found = read_folder(metadata.exif) if metadata.exif is not None else None
    folder = Folder("<") if found is None else found.about()
    if metadata.dpi is not None:
        for tag, value in zip((_ACROSS, _DOWN), metadata.dpi, strict=True):
            folder.put(tag, RATIONAL, round(value * 1000), 1000)
        folder.put(_UNIT, SHORT, _INCH)
    if metadata.xmp is not None:
        folder.put_bytes(_XMP, BYTE, metadata.xmp)
    if metadata.icc is not None:
        folder.put_bytes(_ICC, UNDEFINED, metadata.icc)
    return folder


def _tell_storage(folder: Folder, shape: tuple[int, int, int], depth: int, rows: int) -> None:
    """Say how the samples are stored."""
    height, width, channels = shape
    folder.put(_WIDTH, LONG, width)
    folder.put(_HEIGHT, LONG, height)
    folder.put(_BITS, SHORT, *[depth] * channels)
    folder.put(_COMPRESSION, SHORT, _DEFLATE)
    folder.put(_PHOTOMETRIC, SHORT, 1 if channels < 3 else 2)
    folder.put(_ORIENTATION, SHORT, 1)
    folder.put(_SAMPLES, SHORT, channels)
    folder.put(_ROWS, LONG, rows)
    folder.put(_PLANES, SHORT, 1)
    folder.put(_PREDICTOR, SHORT, _DIFFERENCES)
    if channels in (2, 4):
        folder.put(_EXTRA, SHORT, _FREE_ALPHA)


def _differences(strip: Samples, order: str) -> bytes:
    """Return rows as differences of neighbouring pixels, which compress better."""
    changed = strip.copy()
    changed[:, 1:] -= strip[:, :-1]
    return (changed if sys.byteorder == _ORDER_NAMES[order] else changed.byteswap()).tobytes()
