"""Where in a folder the clean and the degraded pictures lie."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scumble.data.encoding import ENDINGS
from scumble.errors import DataError

# Subfolders of clean and degraded pictures under the same names.
PAIRED = (("sharp", "blur"), ("target", "input"))

# What the two subfolders of a super-resolution set are called, or end in: DIV2K_train_HR.
HIGH, LOW = "HR", "LR_bicubic"


@dataclass(frozen=True)
class Pair:
    """A photo, and the file that holds it degraded, if there is one."""

    name: str  # path of the clean file inside its folder, with forward slashes
    clean: Path
    degraded: Path | None = None  # without one it is made, smaller by MATLAB's bicubic
    size: float = 1  # of the clean picture, as a share of its file's height and width


def find_pairs(folder: str | Path, scale: int) -> list[Pair]:
    """Return the pairs in a folder, sorted by name; how it is laid out says where they are.

    A folder with ``HR`` and ``LR_bicubic`` inside (or ``DIV2K_train_HR`` and so on) holds NAME.png
    and X4/NAMEx4.png; one with ``blur`` and ``sharp``, or ``input`` and ``target``, holds pictures
    of one size under one name. In and below any other folder lie clean photos, and their degraded
    pictures are made.
    """
    check_scale(scale)
    folder = Path(folder)
    try:
        return _find(folder, scale)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}") from error


def _find(folder: Path, scale: int) -> list[Pair]:
    if not folder.exists():
        raise DataError(f"there is no folder {folder}; name the folder of your photos")
    if not folder.is_dir():
        raise DataError(f"{folder} is a file, photos need a folder; name the one that holds them")
    inside = {entry.name for entry in folder.iterdir() if entry.is_dir()}
    possible = sorted({part for name in inside for part in _layouts_with(name)})
    whole = [(clean, degraded) for clean, degraded in possible if {clean, degraded} <= inside]
    if len(whole) > 1:
        names = ", ".join(f"{clean}/ with {degraded}/" for clean, degraded in whole)
        raise DataError(
            f"{folder} needs to hold one data set, holds {names}; move them into separate folders"
        )
    if whole:
        clean, degraded = whole[0]
        find = _benchmark if degraded.endswith(LOW) else _paired
        return find(folder / clean, folder / degraded, scale)
    if possible:
        clean, degraded = possible[0]
        raise DataError(
            f"{folder} needs both {clean}/ and {degraded}/, holds only one; if these are plain "
            f"photos, give the folder that they are in"
        )
    return _plain(folder, scale)


def check_scale(scale: int) -> None:
    """Refuse what is no scale between two pictures of a pair."""
    if scale < 1 or scale != int(scale):
        raise DataError(f"the scale of photos needs to be a whole number from 1, got {scale}")


def _layouts_with(name: str) -> list[tuple[str, str]]:
    """Return the clean and the degraded subfolder of each layout that has one of this name."""
    layouts = [(clean, degraded) for clean, degraded in PAIRED if name in (clean, degraded)]
    for part in (HIGH, LOW):
        if name == part or name.endswith(f"_{part}"):
            stem = name.removesuffix(part)
            layouts.append((stem + HIGH, stem + LOW))
    return layouts


def _plain(folder: Path, scale: int) -> list[Pair]:
    """Return photos whose degraded pictures are to be made."""
    photos = _photos(folder)
    if scale == 1:
        raise DataError(
            f"{folder} needs blur/ and sharp/, or input/ and target/, for scale 1, "
            f"because photos alone do not say how to degrade them"
        )
    return [Pair(name, path) for name, path in photos.items()]


def _paired(clean: Path, degraded: Path, scale: int) -> list[Pair]:
    """Return pictures that have the same name in two folders."""
    if scale != 1:
        raise DataError(
            f"{degraded} and {clean} hold pictures of one size and need scale 1, got {scale}"
        )
    wanted, there = _photos(clean), _photos(degraded)
    _refuse_lonely(degraded, wanted.keys() - there.keys())
    _refuse_lonely(clean, there.keys() - wanted.keys())
    return [Pair(name, path, there[name]) for name, path in wanted.items()]


def _benchmark(clean: Path, degraded: Path, scale: int) -> list[Pair]:
    """Return pictures NAME of one folder with NAMEx4 of the subfolder X4 of another."""
    small = degraded / f"X{scale}"
    if not small.is_dir():
        scales = sorted(entry.name for entry in degraded.iterdir() if entry.is_dir())
        raise DataError(f"scale {scale} needs the folder {small}, there is {_some(scales)}")
    wanted, there = _by_stem(clean), _by_stem(small)
    partners = {f"{stem}x{scale}": path for stem, path in wanted.items()}
    _refuse_lonely(small, partners.keys() - there.keys())
    _refuse_lonely(clean, there.keys() - partners.keys())
    return [Pair(path.name, path, there[stem]) for stem, path in partners.items()]


def _photos(folder: Path) -> dict[str, Path]:
    """Return the picture files in and below a folder by their path inside it, sorted."""
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in _files(folder)
        # Names with a dot in front are leavings of the system, such as ._photo.jpg of macOS.
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file()
    }
    if not paths:
        raise DataError(f"{folder} holds no photos; they end in {', '.join(ENDINGS)}")
    return dict(sorted(paths.items()))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files in and below a folder; a folder that cannot be read is not passed over."""

    def stop(error: OSError) -> None:
        raise error

    for inside, _, names in os.walk(folder, onerror=stop):
        yield from (Path(inside, name) for name in names)


def _by_stem(folder: Path) -> dict[str, Path]:
    """Return the picture files of a folder by their name without ending, sorted."""
    found: dict[str, Path] = {}
    for path in _photos(folder).values():
        if path.stem in found:
            raise DataError(f"{path} and {found[path.stem]} are two pictures of one name")
        found[path.stem] = path
    return found


def _refuse_lonely(folder: Path, missing: Iterable[str]) -> None:
    names = sorted(missing)
    if names:
        raise DataError(f"{folder} lacks the partners of pictures beside it: {_some(names)}")


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + more
