"""Pictures as tensors, read from files and written to them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int32, UInt8
from torch import Tensor

from scumble.data.decoding import Samples, decode, decode_size
from scumble.data.encoding import encode
from scumble.errors import ImageError
from scumble.files import atomic_write

# Of 8-bit pictures uint8; of 16-bit pictures int32, because torch has little use for uint16.
Pixels = UInt8[Tensor, "c h w"] | Int32[Tensor, "c h w"]

_TYPES = {8: torch.uint8, 16: torch.int32}


@dataclass(frozen=True, eq=False)
class Picture:
    """What a picture file holds, at the depth it has."""

    pixels: Pixels  # 1 channel of grey or 3 of RGB
    depth: int = 8  # bits per sample: 8 or 16
    alpha: Pixels | None = None  # opacity, 1 channel

    def __post_init__(self) -> None:
        alpha_fits = self.alpha is None or (
            self.alpha.dtype == self.pixels.dtype
            and self.alpha.shape == (1, *self.pixels.shape[1:])
        )
        if (
            _TYPES.get(self.depth) != self.pixels.dtype
            or self.pixels.ndim != 3
            or self.pixels.shape[0] not in (1, 3)
            or 0 in self.pixels.shape
            or not alpha_fits
        ):
            alpha = "" if self.alpha is None else f" and alpha {_told(self.alpha)}"
            raise ImageError(
                f"a picture needs pixels [1 or 3, H, W] of uint8 for depth 8, of int32 for depth "
                f"16, and alpha [1, H, W] of the same, got depth {self.depth} with pixels "
                f"{_told(self.pixels)}{alpha}"
            )


def read_picture(path: str | Path) -> Picture:
    """Return the picture in a PNG, JPEG, WebP, TIFF or BMP file, upright and with all its bits."""
    samples = decode(Path(path))
    channels = torch.from_numpy(_widened(samples)).permute(2, 0, 1).contiguous()
    depth = 8 * samples.itemsize
    if len(channels) in (1, 3):
        return Picture(channels, depth)
    return Picture(channels[:-1], depth, channels[-1:])


def read_rgb(path: str | Path) -> UInt8[Tensor, "3 h w"]:
    """Return a picture as 8-bit RGB: grey in all three channels, 16 bits rounded, alpha dropped."""
    picture = read_picture(path)
    pixels = picture.pixels
    if picture.depth == 16:
        pixels = ((pixels + 128) // 257).to(torch.uint8)
    return pixels.expand(3, -1, -1).contiguous()


def picture_size(path: str | Path) -> tuple[int, int]:
    """Return height and width of the upright picture in a file, without decoding it."""
    return decode_size(Path(path))


def write_picture(picture: Picture, path: str | Path, quality: int | None = None) -> None:
    """Write a picture in the format that the ending of its name says.

    Args:
        picture: what to write; no bit of it is dropped, a format that would is refused.
        path: the file to write; it appears whole or not at all.
        quality: 1 to 100, for JPEG and WebP; without it JPEG uses 95 and WebP is lossless.
    """
    path = Path(path)
    parts = [picture.pixels] if picture.alpha is None else [picture.pixels, picture.alpha]
    channels = torch.cat(parts).permute(1, 2, 0).cpu().contiguous().numpy()
    content = encode(path, _narrowed(channels, picture.depth), quality)
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise ImageError(f"{path} cannot be written: {error.strerror or error}") from error


def to_float(pixels: Pixels) -> Float[Tensor, "c h w"]:
    """Return pixels of 8 bits (uint8) or 16 bits (int32) as floats in 0..1."""
    return pixels.to(torch.float32) / (255 if pixels.dtype == torch.uint8 else 65535)


def to_uint8(values: Float[Tensor, "*b c h w"]) -> UInt8[Tensor, "*b c h w"]:
    """Return floats in 0..1 as 8-bit pixels, rounded; what lies outside is clamped."""
    return (values * 255).round().clamp(0, 255).to(torch.uint8)


def _widened(samples: Samples) -> np.ndarray:
    return samples.astype(np.int32) if samples.dtype == np.uint16 else samples.copy()


def _narrowed(channels: np.ndarray, depth: int) -> Samples:
    if depth == 8:
        return channels
    if channels.min() < 0 or channels.max() > 65535:
        raise ImageError(
            f"a 16-bit picture needs values in 0..65535, got {channels.min()}..{channels.max()}"
        )
    return channels.astype(np.uint16)


def _told(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
