"""The picture that is being made, tile by tile, at the depth that will be written.

Pillow holds an 8-bit picture while it is pasted together, and encodes it from where it is: 384
megapixels of RGB take 1.5 GB, once. Pillow has no 16-bit colours, so those stand in an array.
"""

from abc import ABC, abstractmethod

import numpy as np
from PIL import Image

from scumble.data.decoding import Samples

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_PILLOW_PIXEL = {1: 1, 2: 4, 3: 4, 4: 4}  # bytes, by channels


class Canvas(ABC):
    """A picture of known size that is filled piece by piece."""

    height: int
    width: int
    channels: int  # grey or RGB, then alpha where there is some
    depth: int  # bits per sample

    @property
    def bytes(self) -> int:
        """Return the memory that it takes."""
        return canvas_bytes(self.height, self.width, self.channels, self.depth)

    @abstractmethod
    def put(self, top: int, left: int, piece: Samples) -> None:
        """Fill a part of the picture."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Samples:
        """Return some rows, from ``start`` up to, but without, ``stop``."""

    @abstractmethod
    def image(self) -> Image.Image:
        """Return the picture for Pillow, rounded to 8 bits if it has more."""


class Canvas8(Canvas):
    """A picture of 8 bits per sample."""

    depth = 8

    def __init__(self, height: int, width: int, channels: int) -> None:
        self.height, self.width, self.channels = height, width, channels
        self._image = Image.new(_MODES[channels], (width, height))

    def put(self, top: int, left: int, piece: Samples) -> None:
        """Fill a part of the picture."""
        self._image.paste(_as_image(piece), (left, top))

    def rows(self, start: int, stop: int) -> Samples:
        """Return some rows."""
        rows = np.asarray(self._image.crop((0, start, self.width, stop)))
        return rows.reshape(stop - start, self.width, self.channels)

    def image(self) -> Image.Image:
        """Return the picture itself."""
        return self._image


class Canvas16(Canvas):
    """A picture of 16 bits per sample."""

    depth = 16

    def __init__(self, height: int, width: int, channels: int) -> None:
        self.height, self.width, self.channels = height, width, channels
        self._samples = np.zeros((height, width, channels), np.uint16)

    def put(self, top: int, left: int, piece: Samples) -> None:
        """Fill a part of the picture."""
        height, width, _ = piece.shape
        self._samples[top : top + height, left : left + width] = piece

    def rows(self, start: int, stop: int) -> Samples:
        """Return some rows."""
        return self._samples[start:stop]

    def image(self) -> Image.Image:
        """Return the picture rounded to 8 bits."""
        rounded = Canvas8(self.height, self.width, self.channels)
        for start in range(0, self.height, 64):
            rows = self.rows(start, min(start + 64, self.height))
            rounded.put(start, 0, to_8_bits(rows))
        return rounded.image()


def new_canvas(height: int, width: int, channels: int, depth: int) -> Canvas:
    """Return an empty picture."""
    return (Canvas8 if depth == 8 else Canvas16)(height, width, channels)


def canvas_bytes(height: int, width: int, channels: int, depth: int) -> int:
    """Return the memory that a picture takes."""
    return height * width * (_PILLOW_PIXEL[channels] if depth == 8 else 2 * channels)


def to_8_bits(samples: Samples) -> Samples:
    """Return samples rounded to 8 bits."""
    if samples.dtype == np.uint8:
        return samples
    return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _as_image(samples: Samples) -> Image.Image:
    return Image.fromarray(samples[:, :, 0] if samples.shape[2] == 1 else samples)
