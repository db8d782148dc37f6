"""One process at a time in a run's folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scumble.errors import TrainingError

FILE = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder; whoever dies lets go of it."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with (folder / FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TrainingError(
                f"another process is training in {folder}; wait for it, or give another folder"
            ) from error
        yield
