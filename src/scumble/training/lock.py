"""One process at a time in a run's folder."""

import os
from pathlib import Path
from types import TracebackType
from weakref import finalize

from scumble.errors import TrainingError

FILE = ".lock"


class FolderLock:
    """The right to write into a run's folder; whoever dies, or forgets it, lets go of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: finalize | None = None  # closes the locked file, once

    def take(self) -> None:
        """Take the folder, unless this has it already."""
        if self._held is not None and self._held.alive:
            return
        handle = _locked(self.folder)
        self._held = None if handle is None else finalize(self, os.close, handle)

    def release(self) -> None:
        """Let go of the folder."""
        if self._held is not None:
            self._held()

    def __enter__(self) -> None:
        self.take()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _locked(folder: Path) -> int | None:
    """Return the open and locked file of a folder; None where the system has no such locks."""
    if os.name != "posix":
        return None
    import fcntl

    while True:
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(handle, folder / FILE):
                return handle
        except BlockingIOError as error:
            os.close(handle)
            raise TrainingError(
                f"another run is at work in {folder}; wait for it, or give another folder"
            ) from error
        except OSError:
            os.close(handle)
            raise
        os.close(handle)  # a run that could not start took the file away meanwhile


def _is_there(handle: int, path: Path) -> bool:
    """Return whether an open file still has its name: others lock what is there by name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
