"""The photos of a run: decoded to train on, and the middles of those held out."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from scumble.data.cache import cache_name
from scumble.data.photos import (
    Pair,
    Skipped,
    check_pairs,
    find_pairs,
    load_pair,
    smaller,
    split,
)
from scumble.data.store import PictureStore
from scumble.errors import DataError, ImageError
from scumble.recipe import DataSection, Recipe
from scumble.training.team import Team

logger = logging.getLogger(__name__)

CACHE = "cache"  # the folder, inside that of the run, for photos that do not fit into memory

# The same photos are held out in every run, whatever its seed: runs can be compared.
SPLIT_SEED = 0

# Photos that cannot be used are named up to this many.
MOST_TOLD = 10

Middle = tuple[Tensor, Tensor]  # of a degraded picture and of the clean one


@dataclass(frozen=True)
class RunPhotos:
    """Decoded photos."""

    store: PictureStore  # to train on
    middles: Sequence[Middle]  # of those held out; only the first process has them
    left_out: Sequence[Skipped]  # photos that could not be used

    @property
    def digest(self) -> str:
        """Return what changes when a training photo comes, goes or gets another size."""
        pairs = zip(self.store.pairs, self.store.sizes, strict=True)
        told = [(pair.name, *size) for pair, size in pairs]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


class Shelf:
    """Keeps the photos that were decoded last, for the next run on the same ones."""

    def __init__(self) -> None:
        self._kept: PictureStore | None = None
        self._key: tuple[object, ...] = ()

    def take(
        self, pairs: Sequence[Pair], scale: int, limit: int, folder: Path, strict: bool
    ) -> PictureStore:
        """Return the decoded photos; others than these are let go of first."""
        key = cache_name(pairs, scale), limit, strict
        if self._kept is None or key != self._key:
            self._kept = None
            self._kept, self._key = PictureStore(pairs, scale, limit, folder, strict), key
        return self._kept


def decode_photos(
    recipe: Recipe, scale: int, folder: Path, team: Team, shelf: Shelf | None = None
) -> RunPhotos:
    """Return the photos of a run in ``folder``; those that cannot be used are named."""
    data = recipe.data
    good, skipped = _usable(data, scale)
    training, held_out = split(good, data.validation, SPLIT_SEED)
    if not training:
        raise DataError(f"{data.photos} leaves no photo to train on beside the validation")
    training += _smaller(training, data, scale)
    limit = int(data.memory_gb * 2**30)
    with team.first():  # it makes the cache, in which the others find everything
        shelf = shelf or Shelf()
        store = shelf.take(training, scale, limit, folder / CACHE, data.strict)
    judged = held_out if team.rank == 0 else []
    middles, damaged = decode_middles(judged, scale, recipe.watch.crop, data.strict)
    # By path: a photo that cannot be read has no smaller copies either.
    left_out = {skip.path: skip for skip in (*skipped, *store.skipped, *damaged)}
    return RunPhotos(store, middles, list(left_out.values()))


def decode_middles(
    pairs: Sequence[Pair], scale: int, side: int, strict: bool
) -> tuple[list[Middle], list[Skipped]]:
    """Return the middles of pairs, at most ``side`` high and wide before scaling, and the rest."""
    middles, skipped = [], []
    for pair in pairs:
        try:
            middles.append(_middle(*load_pair(pair, scale), side, scale))
        except (ImageError, DataError) as error:
            if strict:
                raise
            skipped.append(Skipped(pair.clean, str(error)))
            logger.warning("left out a photo: %s", error)
    if skipped and not middles:
        logger.warning("no photo is left to validate on")
    return middles, skipped


def _usable(data: DataSection, scale: int) -> tuple[list[Pair], list[Skipped]]:
    """Return the photos that fit by their headers, and the others after naming them."""
    found = find_pairs(Path(data.photos), scale)
    good, skipped = check_pairs(found, scale, data.patch, data.strict)
    if not good:
        reason = f"; the first: {skipped[0].reason}" if skipped else ""
        raise DataError(f"none of {len(found)} photos in {data.photos} can be used{reason}")
    for skip in skipped[:MOST_TOLD]:
        logger.warning("left out: %s", skip.reason)
    if len(skipped) > MOST_TOLD:
        logger.warning("left out: %s", _more(len(skipped) - MOST_TOLD))
    return good, skipped


def _smaller(pairs: Sequence[Pair], data: DataSection, scale: int) -> list[Pair]:
    """Return the smaller copies that a recipe asks for, as far as a crop fits in."""
    copies = [copy for size in data.smaller for copy in smaller(pairs, size)]
    return check_pairs(copies, scale, data.patch)[0]


def _more(count: int) -> str:
    return "1 more photo" if count == 1 else f"{count} more photos"


def _middle(degraded: Tensor, clean: Tensor, side: int, scale: int) -> Middle:
    """Return the middle of a pair, in memory of its own: the rest of the pair is let go."""
    height, width = (min(side, extent) for extent in degraded.shape[1:])
    top, left = (degraded.shape[1] - height) // 2, (degraded.shape[2] - width) // 2
    small = degraded[:, top : top + height, left : left + width]
    rows = slice(top * scale, (top + height) * scale)
    columns = slice(left * scale, (left + width) * scale)
    return small.clone(), clean[:, rows, columns].clone()
