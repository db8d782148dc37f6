"""TIFF files of 8 or 16 bits, written strip by strip: Pillow writes no 16-bit colours."""

import struct
import zlib
from collections.abc import Iterable
from typing import IO

from PIL import ExifTags, Image, TiffImagePlugin

from scumble.data.decoding import Samples
from scumble.errors import ImageError
from scumble.restore.metadata import Metadata

_LITTLE = b"II*\0"
_HEADER = 8
_LARGEST = 2**32 - 1  # what offsets of 32 bits reach

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_STRIP_OFFSETS, _SAMPLES, _ROWS, _STRIP_BYTES = 273, 277, 278, 279
_ACROSS, _DOWN, _UNIT, _PLANES, _PREDICTOR, _EXTRA = 282, 283, 296, 284, 317, 338
_XMP, _ICC = 700, 34675
_ORIENTATION = 274
_DEFLATE, _DIFFERENCES, _INCH, _FREE_ALPHA = 8, 2, 2, 2
_BYTE, _SHORT, _LONG, _UNDEFINED = 1, 3, 4, 7
_FOLDERS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)


def write_tiff(
    file: IO[bytes],
    strips: Iterable[Samples],
    shape: tuple[int, int, int],
    depth: int,
    rows_per_strip: int,
    metadata: Metadata,
) -> None:
    """Write a picture as TIFF, losslessly compressed.

    Args:
        file: where to; it can be written at any place.
        strips: the rows of the picture from the top, ``rows_per_strip`` at a time.
        shape: height, width and channels.
        depth: bits per sample.
        rows_per_strip: how many rows each strip but the last has.
        metadata: what else is to be said.
    """
    folder = _folder(shape, depth, rows_per_strip, metadata)
    count = -(-shape[0] // rows_per_strip)
    _put(folder, _STRIP_OFFSETS, _LONG, (0,) * count)
    _put(folder, _STRIP_BYTES, _LONG, (0,) * count)
    start = file.tell()
    file.write(bytes(_HEADER) + folder.tobytes(_HEADER))
    # The folder says where strips are beginning after itself.
    offsets, lengths, at = [], [], 0
    for strip in strips:
        packed = zlib.compress(_differences(strip), 6)
        if file.tell() + len(packed) > _LARGEST:
            raise ImageError("a TIFF file holds at most 4 GB, got more; write PNG")
        file.write(packed)
        offsets.append(at)
        lengths.append(len(packed))
        at += len(packed)
    _put(folder, _STRIP_OFFSETS, _LONG, tuple(offsets))
    _put(folder, _STRIP_BYTES, _LONG, tuple(lengths))
    file.seek(start)
    file.write(_LITTLE + struct.pack("<I", _HEADER) + folder.tobytes(_HEADER))
    file.seek(0, 2)


def _folder(
    shape: tuple[int, int, int], depth: int, rows: int, metadata: Metadata
) -> TiffImagePlugin.ImageFileDirectory_v2:
    """Return all tags but the places of the strips."""
    height, width, channels = shape
    folder = TiffImagePlugin.ImageFileDirectory_v2(ifh=_LITTLE + bytes(4))
    _describe(folder, metadata)
    _put(folder, _WIDTH, _LONG, width)
    _put(folder, _HEIGHT, _LONG, height)
    _put(folder, _BITS, _SHORT, (depth,) * channels)
    _put(folder, _COMPRESSION, _SHORT, _DEFLATE)
    _put(folder, _PHOTOMETRIC, _SHORT, 1 if channels < 3 else 2)
    _put(folder, _ORIENTATION, _SHORT, 1)
    _put(folder, _SAMPLES, _SHORT, channels)
    _put(folder, _ROWS, _LONG, rows)
    _put(folder, _PLANES, _SHORT, 1)
    _put(folder, _PREDICTOR, _SHORT, _DIFFERENCES)
    if channels in (2, 4):
        _put(folder, _EXTRA, _SHORT, _FREE_ALPHA)
    return folder


def _describe(folder: TiffImagePlugin.ImageFileDirectory_v2, metadata: Metadata) -> None:
    """Put EXIF, XMP and the colour profile where TIFF has them."""
    if metadata.exif is not None:
        told = Image.Exif()
        told.load(b"Exif\0\0" + metadata.exif)
        for tag, value in told.items():
            if tag not in _FOLDERS:
                folder[tag] = value
        for name in _FOLDERS:
            inner = told.get_ifd(name)
            if inner:
                folder.tagtype[name] = _LONG
                folder[name] = dict(inner)
    if metadata.dpi is not None:
        for tag, value in zip((_ACROSS, _DOWN), metadata.dpi, strict=True):
            folder[tag] = TiffImagePlugin.IFDRational(round(value * 1000), 1000)
        _put(folder, _UNIT, _SHORT, _INCH)
    if metadata.xmp is not None:
        _put(folder, _XMP, _BYTE, metadata.xmp)
    if metadata.icc is not None:
        _put(folder, _ICC, _UNDEFINED, metadata.icc)


def _put(folder: TiffImagePlugin.ImageFileDirectory_v2, tag: int, kind: int, value: object) -> None:
    folder.tagtype[tag] = kind
    folder[tag] = value


def _differences(strip: Samples) -> bytes:
    """Return rows as differences of neighbouring pixels, which compress better."""
    changed = strip.copy()
    changed[:, 1:] -= strip[:, :-1]
    return changed.astype(changed.dtype.newbyteorder("<")).tobytes()
