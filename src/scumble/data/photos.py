"""The photos a run trains on or is judged by: pairs of a clean picture and a degraded one."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from scumble.data.bicubic import resize, resized
from scumble.data.images import picture_size, read_rgb
from scumble.data.layouts import Pair, check_scale, find_pairs
from scumble.errors import DataError, ImageError

__all__ = [
    "Pair",
    "Skipped",
    "check_pairs",
    "clean_size",
    "find_pairs",
    "load_pair",
    "smaller",
    "split",
]


@dataclass(frozen=True)
class Skipped:
    """A file that cannot be used, and why."""

    path: Path
    reason: str  # one sentence


def load_pair(pair: Pair, scale: int) -> tuple[UInt8[Tensor, "3 h w"], UInt8[Tensor, "3 H W"]]:
    """Return the degraded picture and the clean one, cropped to ``scale`` times its size."""
    clean = read_rgb(pair.clean)
    clean = clean if pair.size == 1 else resize(clean, pair.size)
    height, width = _degraded_size(pair, clean.shape[1:], scale)
    clean = clean[:, : height * scale, : width * scale].contiguous()
    if pair.degraded is None:
        return resize(clean, Fraction(1, scale)), clean
    degraded = read_rgb(pair.degraded)
    _check_degraded(pair, degraded.shape[1:], (height, width), scale)
    return degraded, clean


def clean_size(pair: Pair) -> tuple[int, int]:
    """Return height and width of the clean picture of a pair, as its file's header says."""
    height, width = picture_size(pair.clean)
    return resized(height, pair.size), resized(width, pair.size)


def smaller(pairs: Sequence[Pair], size: float) -> list[Pair]:
    """Return the pairs of the same photos, made ``size`` times as large first."""
    if any(pair.degraded is not None for pair in pairs):
        raise DataError(
            "smaller copies of photos (data.smaller) need degraded pictures to be made, "
            "got files of them; leave it out"
        )
    return [replace(pair, name=f"{pair.name} at {size:g}", size=size) for pair in pairs]


def check_pairs(
    pairs: Iterable[Pair], scale: int, smallest_side: int = 1, strict: bool = False
) -> tuple[list[Pair], list[Skipped]]:
    """Return the pairs that fit, and what is wrong with the others, from their headers alone.

    Args:
        pairs: what to look at.
        scale: how many times larger the clean pictures are.
        smallest_side: pixels that a degraded picture needs in height and width.
        strict: raise at the first that does not fit.
    """
    good, skipped = [], []
    for pair in pairs:
        try:
            _check_pair(pair, scale, smallest_side)
        except (ImageError, DataError) as error:
            if strict:
                raise
            skipped.append(Skipped(pair.clean, str(error)))
        else:
            good.append(pair)
    return good, skipped


def split(pairs: Sequence[Pair], share: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs to train on, and about ``share`` of them to validate with.

    What is in a clean file decides where it goes, nothing else: copies of a file stay together,
    and none changes sides when others are added, removed or renamed.
    """
    if not 0 <= share < 1:
        raise DataError(f"the share for validation needs to be at least 0 and below 1, got {share}")
    train, validation = [], []
    for pair in pairs:
        (validation if _draw(pair.clean, seed) < share else train).append(pair)
    if pairs and share > 0 and not (train and validation):
        empty = "validation" if train else "training"
        raise DataError(
            f"a share of {share} for validation leaves none of {len(pairs)} photos for {empty}; "
            f"take another share (data.validation; 0 for none), or more photos"
        )
    return train, validation


def _draw(path: Path, seed: int) -> float:
    """Return a number in 0..1 that the content of a file and the seed decide."""
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}") from error
    draw = hashlib.sha256(f"{seed}:".encode() + content).digest()
    return int.from_bytes(draw[:6], "big") / 2**48


def _check_pair(pair: Pair, scale: int, smallest_side: int) -> None:
    size = _degraded_size(pair, clean_size(pair), scale)
    if min(size) < smallest_side:
        raise DataError(
            f"{pair.clean} needs to leave {smallest_side} pixels a side at scale {scale}, "
            f"leaves {size[0]}x{size[1]}; take a smaller patch, or leave it out"
        )
    if pair.degraded is not None:
        _check_degraded(pair, picture_size(pair.degraded), size, scale)


def _degraded_size(pair: Pair, clean_size: Sequence[int], scale: int) -> tuple[int, int]:
    """Return height and width that the degraded picture needs."""
    check_scale(scale)
    height, width = clean_size
    if min(height, width) < scale:
        raise DataError(
            f"{pair.clean} needs to be larger than the scale, is {height}x{width} at scale {scale}"
        )
    return height // scale, width // scale


def _check_degraded(pair: Pair, size: Sequence[int], expected: tuple[int, int], scale: int) -> None:
    if tuple(size) != expected:
        raise DataError(
            f"{pair.degraded} needs to be {expected[0]}x{expected[1]}, the size of {pair.clean} "
            f"at scale {scale}, is {size[0]}x{size[1]}"
        )
