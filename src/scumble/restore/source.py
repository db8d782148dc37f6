"""A picture file, decoded, with all that is kept of it."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from scumble.data.decoding import Samples, decode, decode_header
from scumble.errors import ImageError
from scumble.restore.canvas import to_8_bits
from scumble.restore.metadata import Metadata, read_metadata

_THUMBNAIL = 160  # pixels of its longer side


@dataclass(frozen=True, eq=False)
class Source:
    """What was in a picture file."""

    samples: Samples  # upright
    format: str
    lossy: bool  # whether the file was compressed with loss
    metadata: Metadata

    def thumbnail(self, quality: int) -> bytes:
        """Return a small JPEG of the picture."""
        colours = self.samples[:, :, : 1 if self.samples.shape[2] < 3 else 3]
        step = max(1, max(colours.shape[:2]) // (4 * _THUMBNAIL))
        colours = to_8_bits(np.ascontiguousarray(colours[::step, ::step]))
        image = Image.fromarray(colours[:, :, 0] if colours.shape[2] == 1 else colours)
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return file.getvalue()


def read_source(path: Path, content: bytes, max_megapixels: float) -> Source:
    """Return the picture in the content of a file; ``path`` is what it is called."""
    header = decode_header(path, content)
    refuse_large(path, header.height, header.width, max_megapixels)
    samples = decode(path, content)
    try:
        metadata = read_metadata(content)
    except Exception as error:  # Pillow's readers raise whatever damaged metadata lead them to
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ImageError(f"{path} has damaged metadata: {reason}") from error
    lossy = header.format == "JPEG" or (header.format == "WEBP" and _is_lossy_webp(content))
    return Source(samples, header.format, lossy, metadata)


def refuse_large(path: Path, height: int, width: int, max_megapixels: float) -> None:
    """Refuse pictures above the limit, whether they mean it or lie."""
    if height * width > max_megapixels * 1e6:
        raise ImageError(
            f"{path} needs to hold at most {max_megapixels:g} megapixels, holds "
            f"{height * width / 1e6:.4g} ({width}x{height}); raise --max-megapixels if it is right"
        )


def _is_lossy_webp(content: bytes) -> bool:
    """Return whether a WebP file holds a lossy picture, by the kinds of its parts."""
    at = 12
    while at + 8 <= len(content):
        kind = content[at : at + 4]
        if kind in (b"VP8 ", b"VP8L"):
            return kind == b"VP8 "
        length = int.from_bytes(content[at + 4 : at + 8], "little")
        at += 8 + length + length % 2
    return False
