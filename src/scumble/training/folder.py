"""The folder of a run: held by one, and left as it was by a run that cannot start."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from scumble.errors import TrainingError
from scumble.run_folder import BEST, FINAL, LOG, RECIPE, STARTS, STATE
from scumble.training.lock import FILE as LOCK
from scumble.training.lock import FolderLock
from scumble.training.photos import CACHE


class RunFolder:
    """Where a run writes, for the process that does the writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = FolderLock(path)
        self._new: Sequence[Path] = ()  # what is made to open it, inner folders first
        self._caches: set[Path] = set()  # that were there before

    def open(self) -> None:
        """Take the folder before anything in it is touched."""
        try:
            places = (self.path / LOCK, self.path, *self.path.parents)
            self._new = [place for place in places if not place.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.take()
            self._sweep()
            self._caches = set(self.path.glob(f"{CACHE}/*"))
        except OSError as error:
            raise TrainingError(f"{self.path} cannot hold a run: {error.strerror}") from error

    def abandon(self) -> None:
        """Leave everything as it was before the folder was opened."""
        with suppress(OSError):
            for cache in set(self.path.glob(f"{CACHE}/*")) - self._caches:
                cache.unlink()
            (self.path / CACHE).rmdir()  # if nothing is in it
        with suppress(OSError):
            for place in self._new:
                place.rmdir() if place.is_dir() else place.unlink(missing_ok=True)
        self.lock.release()

    def _sweep(self) -> None:
        """Remove halves of files that a kill left behind."""
        halves = [f".{name}.*" for name in (STATE, BEST, FINAL, RECIPE, LOG, STARTS)]
        for half in (*halves, f"{CACHE}/.*.cache.*"):
            for path in self.path.glob(half):
                path.unlink()
