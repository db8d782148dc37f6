"""Where decoded pairs are kept: in memory, or in one file that is mapped into it."""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from scumble.data.photos import Pair, Skipped

_MAGIC = b"scumble pictures 1\n"
_FOOTER = struct.Struct("<Q32s")  # length and SHA-256 of the index before it
_AROUND = 2 * 2**21  # bytes that may be mapped besides those asked for: a huge page at each end


@dataclass(frozen=True)
class Box:
    """A part of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int

    def times(self, scale: int) -> "Box":
        """Return the same part of a picture ``scale`` times as large."""
        return Box(*(side * scale for side in astuple(self)))


class Kept(Protocol):
    """Decoded pairs, by number; 0 is the degraded picture of a pair, 1 the clean one."""

    def cut(self, index: int, which: int, box: Box) -> UInt8[Tensor, "3 h w"]:
        """Return a part of a picture, in memory of its own."""
        ...


class KeptInMemory:
    """Pairs as plain tensors."""

    def __init__(self, pictures: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._pictures = pictures

    def cut(self, index: int, which: int, box: Box) -> UInt8[Tensor, "3 h w"]:
        """Return a part of a picture, in memory of its own."""
        picture = self._pictures[index][which]
        rows = slice(box.top, box.top + box.height)
        return picture[:, rows, box.left : box.left + box.width].clone()


class KeptInFile:
    """Pairs in a file: the rows of a part are mapped when it is cut, and let go of at the limit."""

    def __init__(
        self, path: Path, sizes: Sequence[tuple[int, int]], scale: int, limit_bytes: int
    ) -> None:
        self._made_of = path, sizes, scale, limit_bytes
        self._limit_bytes = limit_bytes
        self._mapped_bytes = 0
        shapes = [((h, w, 3), (h * scale, w * scale, 3)) for h, w in sizes]
        lengths = [int(np.prod(shape)) for pair in shapes for shape in pair]
        self._shapes = shapes
        self._starts = len(_MAGIC) + np.cumsum([0, *lengths])
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)  # no reading ahead: the next crop lies elsewhere

    def __reduce__(self) -> tuple[type["KeptInFile"], tuple[object, ...]]:
        # A mapping cannot travel to another process, but can be made there again.
        return KeptInFile, self._made_of

    def cut(self, index: int, which: int, box: Box) -> UInt8[Tensor, "3 h w"]:
        """Return a part of a picture, in memory of its own."""
        shape, start = self._shapes[index][which], self._starts[2 * index + which]
        self._make_room(box.height * shape[1] * 3 + _AROUND)
        picture = np.ndarray(shape, np.uint8, self._map, int(start))
        rows = slice(box.top, box.top + box.height)
        part = picture[rows, box.left : box.left + box.width]
        return torch.from_numpy(part.transpose(2, 0, 1).copy())

    def _make_room(self, wanted_bytes: int) -> None:
        """Let go of what is mapped when ``wanted_bytes`` more would break the limit."""
        if self._mapped_bytes + wanted_bytes > self._limit_bytes:
            if hasattr(mmap, "MADV_DONTNEED"):
                self._map.madvise(mmap.MADV_DONTNEED)
            self._mapped_bytes = 0
        self._mapped_bytes += wanted_bytes


@dataclass(frozen=True)
class Index:
    """What a cache file holds."""

    numbers: list[int]  # of the pairs it was made of, those it holds
    sizes: list[tuple[int, int]]  # height and width of their degraded pictures
    skipped: list[Skipped]


def cache_name(pairs: Sequence[Pair], scale: int) -> str:
    """Return the name of a cache file; it changes whenever a source, its size or its date does."""
    key = hashlib.sha256(_MAGIC + str(scale).encode())
    for pair in pairs:
        key.update(f"\0{pair.size}".encode())
        for path in (pair.clean, pair.degraded):
            key.update(f"\0{path and _identity(path)}".encode("utf-8", "surrogateescape"))
    return f"pictures-{key.hexdigest()[:20]}.cache"


def _identity(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return f"{path} is missing"
    return f"{os.path.realpath(path)}\0{stat.st_size}\0{stat.st_mtime_ns}"


def begin_cache(file: IO[bytes]) -> None:
    """Write what stands before the pictures."""
    file.write(_MAGIC)


def append_picture(file: IO[bytes], picture: UInt8[Tensor, "3 h w"]) -> None:
    """Write a picture pixel by pixel, so that a row of it lies in one place."""
    file.write(picture.permute(1, 2, 0).contiguous().numpy().data)


def end_cache(file: IO[bytes], index: Index) -> None:
    """Write what stands after the pictures: what they are."""
    skipped = [[os.fspath(skip.path), skip.reason] for skip in index.skipped]
    content = json.dumps([index.numbers, index.sizes, skipped]).encode()
    file.write(content + _FOOTER.pack(len(content), hashlib.sha256(content).digest()))


def read_index(path: Path, scale: int) -> Index | None:
    """Return what a cache file holds; None if there is none, or if it is damaged or cut short."""
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - _FOOTER.size))
            size, digest = _FOOTER.unpack(file.read())
            begin = length - _FOOTER.size - size
            if begin < len(_MAGIC):
                return None  # the size is nonsense, and too much to read
            file.seek(begin)
            content = file.read(size)
    except (OSError, struct.error):
        return None
    if hashlib.sha256(content).digest() != digest:
        return None
    numbers, sizes, skipped = json.loads(content)
    pixels = sum(height * width for height, width in sizes) * (1 + scale**2)
    if begin != len(_MAGIC) + 3 * pixels:
        return None
    return Index(
        numbers,
        [(height, width) for height, width in sizes],
        [Skipped(Path(name), reason) for name, reason in skipped],
    )
