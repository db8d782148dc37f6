"""PNG files of 16 bits per sample, which Pillow reads but does not write in colour."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from scumble.data.decoding import Samples

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by number of channels: grey, grey + alpha, RGB, RGBA
_PAETH = 4


def encode_png16(samples: Samples) -> bytes:
    """Return the content of a PNG file that holds 16-bit samples."""
    height, width, channels = samples.shape
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    rows = samples.astype(">u2").view(np.uint8).reshape(height, -1)
    packer = zlib.compressobj(6)
    packed = [packer.compress(row) for row in _filtered(rows, 2 * channels)]
    content = b"".join([*packed, packer.flush()])
    chunks = _chunk(b"IHDR", header), _chunk(b"IDAT", content), _chunk(b"IEND", b"")
    return SIGNATURE + b"".join(chunks)


def _filtered(rows: NDArray[np.uint8], pixel: int) -> list[bytes]:
    """Return each row as the filter's number and its differences to what Paeth's filter expects.

    That is whichever of left, up and corner is nearest to left + up - corner.
    """
    filtered = []
    above = np.zeros(rows.shape[1] + pixel, np.int16)
    for row in rows:
        here = np.concatenate([np.zeros(pixel, np.int16), row.astype(np.int16)])
        left, up, corner = here[:-pixel], above[pixel:], above[:-pixel]
        to_left, to_up = abs(up - corner), abs(left - corner)
        to_corner = abs(left + up - 2 * corner)
        expected = np.where(to_up <= to_corner, up, corner)
        expected = np.where((to_left <= to_up) & (to_left <= to_corner), left, expected)
        filtered.append(bytes([_PAETH]) + (here[pixel:] - expected).astype(np.uint8).tobytes())
        above = here
    return filtered


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
