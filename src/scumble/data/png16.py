"""PNG files of 16 bits per sample, which Pillow reads but does not write in colour."""

import struct
import zlib
from collections.abc import Iterable
from io import BytesIO
from typing import IO

import numpy as np
from numpy.typing import NDArray

from scumble.data.decoding import Samples

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by number of channels: grey, grey + alpha, RGB, RGBA
_PAETH = 4


def encode_png16(samples: Samples) -> bytes:
    """Return the content of a PNG file that holds 16-bit samples."""
    height, width, channels = samples.shape
    file = BytesIO()
    write_png16(file, [samples], (height, width, channels))
    return file.getvalue()


def write_png16(
    file: IO[bytes],
    strips: Iterable[Samples],
    shape: tuple[int, int, int],
    chunks: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Write 16-bit samples as a PNG file, strip by strip of whole rows.

    Args:
        file: where to.
        strips: the rows of the picture, from the top.
        shape: height, width and channels of the picture.
        chunks: kind and data of what else stands before the pixels.
    """
    height, width, channels = shape
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    file.write(SIGNATURE + _chunk(b"IHDR", header))
    for kind, data in chunks:
        file.write(_chunk(kind, data))
    packer = zlib.compressobj(6)
    above = np.zeros(2 * channels * (width + 1), np.int16)
    for strip in strips:
        rows = strip.astype(">u2").view(np.uint8).reshape(len(strip), -1)
        filtered, above = _filtered(rows, 2 * channels, above)
        packed = b"".join(packer.compress(row) for row in filtered)
        if packed:
            file.write(_chunk(b"IDAT", packed))
    file.write(_chunk(b"IDAT", packer.flush()) + _chunk(b"IEND", b""))


def _filtered(
    rows: NDArray[np.uint8], pixel: int, above: NDArray[np.int16]
) -> tuple[list[bytes], NDArray[np.int16]]:
    """Return each row as the filter's number and its differences to what Paeth's filter expects.

    That is whichever of left, up and corner is nearest to left + up - corner. ``above`` is the row
    before, with one pixel of zeros in front; the last row comes back in this form.
    """
    filtered = []
    for row in rows:
        here = np.concatenate([np.zeros(pixel, np.int16), row.astype(np.int16)])
        left, up, corner = here[:-pixel], above[pixel:], above[:-pixel]
        to_left, to_up = abs(up - corner), abs(left - corner)
        to_corner = abs(left + up - 2 * corner)
        expected = np.where(to_up <= to_corner, up, corner)
        expected = np.where((to_left <= to_up) & (to_left <= to_corner), left, expected)
        filtered.append(bytes([_PAETH]) + (here[pixel:] - expected).astype(np.uint8).tobytes())
        above = here
    return filtered, above


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
