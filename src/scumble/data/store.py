"""The decoded pictures of a run, within a memory limit."""

import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO

from jaxtyping import UInt8
from torch import Tensor

from scumble.data.ahead import ahead
from scumble.data.cache import (
    Box,
    Index,
    Kept,
    KeptInFile,
    KeptInMemory,
    append_picture,
    begin_cache,
    cache_name,
    end_cache,
    read_index,
)
from scumble.data.photos import Pair, Skipped, clean_size, load_pair
from scumble.errors import DataError, ImageError
from scumble.files import atomic_write

Crops = tuple[UInt8[Tensor, "3 h w"], UInt8[Tensor, "3 H W"]]

_log = logging.getLogger(__name__)


class PictureStore:
    """Pairs of decoded pictures, to cut training patches from.

    They are plain tensors if together they fit under the limit. Otherwise one file in the cache
    folder holds them, made once and used again by every run on the same photos; of it no more
    than the limit is in memory. While it is made, one pair is decoded at a time, which comes on
    top. When it is used again its length and index are checked, its pixels are taken as they are.

    Args:
        pairs: where the pictures are.
        scale: how many times larger the clean ones are.
        limit_bytes: memory for decoded pictures.
        cache_folder: where the file goes if they need more; it may be deleted between runs.
        strict: raise at the first photo that cannot be used, instead of skipping it.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        scale: int,
        limit_bytes: int,
        cache_folder: str | Path | None = None,
        strict: bool = False,
    ) -> None:
        needed = _decoded_bytes(pairs, scale)
        if needed <= limit_bytes:
            kept, index = _in_memory(pairs, scale, strict)
        elif cache_folder is None:
            raise DataError(
                f"{len(pairs)} photos need {_told(needed)} of memory once decoded, the limit is "
                f"{_told(limit_bytes)}; raise it, or name a cache folder"
            )
        else:
            path = Path(cache_folder) / cache_name(pairs, scale)
            index = _in_file(path, pairs, scale, strict, needed)
            kept = KeptInFile(path, index.sizes, scale, limit_bytes)
        self._kept: Kept = kept
        self.scale = scale
        self.pairs = [pairs[number] for number in index.numbers]  # those that the store holds
        self.sizes = index.sizes  # height and width of each degraded picture
        self.skipped = index.skipped  # photos that could not be used

    def __len__(self) -> int:
        return len(self.pairs)

    def crop(self, index: int, top: int, left: int, height: int, width: int, scale: int) -> Crops:
        """Return a part of a degraded picture, and the same part of the clean one.

        Args:
            index: which pair.
            top: first row of the part, in the degraded picture.
            left: first column.
            height: rows.
            width: columns.
            scale: that of the store.
        """
        box, whole = Box(top, left, height, width), self.sizes[index]
        if not (0 <= top < top + height <= whole[0] and 0 <= left < left + width <= whole[1]):
            raise DataError(
                f"a crop needs to lie inside {whole[0]}x{whole[1]}, got {height}x{width} at "
                f"row {top}, column {left}"
            )
        if scale != self.scale:
            raise DataError(f"this store holds pairs of scale {self.scale}, got scale {scale}")
        return self._kept.cut(index, 0, box), self._kept.cut(index, 1, box.times(scale))

    def pair(self, index: int) -> Crops:
        """Return a degraded picture and the clean one as a whole."""
        return self.crop(index, 0, 0, *self.sizes[index], self.scale)


def _decoded_bytes(pairs: Sequence[Pair], scale: int) -> int:
    """Return the memory that the pictures need once decoded, as their headers say."""
    total = 0
    for pair in pairs:
        try:
            height, width = clean_size(pair)
        except ImageError:
            continue  # told when it is to be decoded
        total += 3 * (height // scale) * (width // scale) * (1 + scale**2)
    return total


def _in_memory(pairs: Sequence[Pair], scale: int, strict: bool) -> tuple[Kept, Index]:
    """Return the decoded pairs as tensors."""
    pictures: list[Crops] = []
    # Closed here: left to the garbage collector, its threads might have to wait for themselves.
    with closing(ahead(partial(load_pair, scale=scale), pairs)) as work:
        loads = (made.result for made in work)
        index = _decode(pairs, loads, strict, lambda *pair: pictures.append(pair))
    return KeptInMemory(pictures), index


def _in_file(path: Path, pairs: Sequence[Pair], scale: int, strict: bool, needed: int) -> Index:
    """Return what the cache file holds, after making it if there is none to use again."""
    index = read_index(path, scale)
    if index is None:
        return _make_file(path, pairs, scale, strict, needed)
    for skip in index.skipped:
        if strict:
            raise DataError(skip.reason)
        _warn(skip)
    return index


def _make_file(path: Path, pairs: Sequence[Pair], scale: int, strict: bool, needed: int) -> Index:
    """Write the cache file, one pair after the other."""
    try:
        _refuse_full_disk(path.parent, needed)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            begin_cache(file)
            # One at a time: these photos do not fit into memory.
            loads = (partial(load_pair, pair, scale) for pair in pairs)
            index = _decode(pairs, loads, strict, partial(_append, file))
            end_cache(file, index)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    return index


def _refuse_full_disk(folder: Path, needed: int) -> None:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise DataError(
            f"{folder} needs {_told(needed)} for decoded photos, has {_told(free)} free; "
            f"make room, or choose a folder on another disk for the run"
        )


def _append(file: IO[bytes], degraded: Tensor, clean: Tensor) -> None:
    append_picture(file, degraded)
    append_picture(file, clean)


def _decode(
    pairs: Sequence[Pair],
    loads: Iterable[Callable[[], Crops]],
    strict: bool,
    keep: Callable[[Tensor, Tensor], object],
) -> Index:
    """Hand every decoded pair to ``keep``, and return which they were."""
    index = Index([], [], [])
    for number, (pair, load) in enumerate(zip(pairs, loads, strict=True)):
        try:
            degraded, clean = load()
        except (ImageError, DataError) as error:
            if strict:
                raise
            index.skipped.append(Skipped(pair.clean, str(error)))
            _warn(index.skipped[-1])
            continue
        index.numbers.append(number)
        index.sizes.append((degraded.shape[1], degraded.shape[2]))
        keep(degraded, clean)
        del degraded, clean  # or they stay in memory while the next pair is decoded
    if not index.numbers:
        first = f": {index.skipped[0].reason}" if index.skipped else ""
        raise DataError(f"none of {len(pairs)} photos can be used{first}")
    return index


def _warn(skip: Skipped) -> None:
    _log.warning("left out a photo: %s", skip.reason)


def _told(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
