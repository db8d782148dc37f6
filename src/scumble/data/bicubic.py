"""MATLAB's bicubic ``imresize``, bit for bit."""

from fractions import Fraction
from math import ceil

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from scumble.errors import DataError

# Photos are resized in strips, so that a large one needs little memory beside its own. Up to this
# size torch stays on one core; its threads would cost more than they bring where others compute.
STRIP_VALUES = 2**15


def resize(
    pixels: UInt8[Tensor, "*b c h w"], scale: float | Fraction
) -> UInt8[Tensor, "*b c new_h new_w"]:
    """Return the picture ``scale`` times as large, as ``imresize(pixels, scale)`` of MATLAB does.

    Rows come first, and each of the two passes rounds to 8 bits. Sums are taken in float64 and in
    a fixed order, so that every device gives the same pixels.

    >>> resize(torch.zeros(3, 9, 6, dtype=torch.uint8), Fraction(1, 3)).shape
    torch.Size([3, 3, 2])
    """
    if pixels.dtype != torch.uint8 or pixels.ndim < 3 or 0 in pixels.shape:
        raise DataError(
            f"resizing needs uint8 pixels [C, H, W], got {pixels.dtype} {tuple(pixels.shape)}"
        )
    if not 0 < scale < float("inf"):
        raise DataError(f"resizing needs a scale above 0, got {scale}")
    columns_last = _resize_rows(pixels, scale)
    rows_last = _resize_rows(columns_last.transpose(-1, -2), scale)
    return rows_last.transpose(-1, -2).contiguous()


def resized(side: int, scale: float | Fraction) -> int:
    """Return how many pixels ``side`` of them become."""
    return ceil(side * scale)


def _resize_rows(
    pixels: UInt8[Tensor, "*b h w"], scale: float | Fraction
) -> UInt8[Tensor, "*b new_h w"]:
    """Return the picture with new rows, rounded to 8 bits."""
    weights, sources = (part.to(pixels.device) for part in _taps(pixels.shape[-2], scale))
    # Rows are gathered many times, which is slow where they lie apart: in a transposed picture.
    planes = pixels.flatten(0, -3).contiguous()
    new = planes.new_empty(len(planes), len(weights), planes.shape[2])
    strip = max(1, STRIP_VALUES // planes[:, 0].numel())
    for first in range(0, len(weights), strip):
        here = slice(first, first + strip)
        new[:, here] = _weighted_rows(planes, weights[here], sources[here])
    return new.unflatten(0, pixels.shape[:-2])


def _weighted_rows(
    planes: UInt8[Tensor, "n h w"],
    weights: Float64[Tensor, "rows taps"],
    sources: Int64[Tensor, "rows taps"],
) -> UInt8[Tensor, "n rows w"]:
    """Return rows that are weighted sums of others; halves are rounded up."""
    shape = len(planes), len(weights), planes.shape[2]
    total = torch.zeros(shape, dtype=torch.float64, device=planes.device)
    # Product and sum stay two steps: fused into one they round differently from device to device.
    for weight, source in zip(weights.T, sources.T, strict=True):
        total += planes.index_select(1, source) * weight.view(-1, 1)
    return total.add_(0.5).floor_().clamp_(0, 255).to(torch.uint8)


def _taps(
    size: int, scale: float | Fraction
) -> tuple[Float64[Tensor, "new taps"], Int64[Tensor, "new taps"]]:
    """Return the weights of each new row, and the rows that they belong to."""
    new_size, factor = resized(size, scale), float(scale)
    stretch = min(factor, 1.0)  # a picture that shrinks is blurred as much
    width = 4 / stretch
    # Places are counted from 1, as MATLAB does, so that they round alike.
    centres = torch.arange(1, new_size + 1, dtype=torch.float64) / factor + 0.5 * (1 - 1 / factor)
    reach = torch.arange(ceil(width) + 2)
    places = (centres - width / 2).floor().long().unsqueeze(1) + reach
    weights = stretch * _cubic(stretch * (centres.unsqueeze(1) - places))
    weights = weights / weights.sum(1, keepdim=True)
    used = (weights != 0).any(0)
    mirrored = (places - 1) % (2 * size)
    sources = torch.minimum(mirrored, 2 * size - 1 - mirrored)
    return weights[:, used], sources[:, used]


def _cubic(x: Float64[Tensor, "new taps"]) -> Float64[Tensor, "new taps"]:
    """Return Keys' cubic with a = -1/2."""
    x = x.abs()
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return torch.where(x <= 1, near, torch.where(x <= 2, far, torch.zeros_like(x)))
