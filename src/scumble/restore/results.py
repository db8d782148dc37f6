"""What became of each picture, and what is known of it before and after its turn."""

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scumble.errors import ImageError, RestoreError, ScumbleError
from scumble.restore.form import Form
from scumble.restore.plan import Job
from scumble.restore.store import Store

DONE, SKIPPED, FAILED = "done", "skipped", "failed"

_LARGEST_FILE = 2_000_000_000  # bytes

# When these happen, no other picture will fare better.
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@dataclass(frozen=True)
class Result:
    """What became of one picture."""

    source: Path
    target: Path
    status: str  # done, skipped or failed
    pixels: int = 0  # of the source
    error: str | None = None


@dataclass(frozen=True)
class Turn:
    """A picture file whose turn it is."""

    job: Job
    input_hash: str
    content: bytes  # nothing of a video, which is too large


class Ledger:
    """Looks up what is done already, and notes what gets done."""

    def __init__(self, store: Store, form: Form, settings: str) -> None:
        self.store, self.form, self.settings = store, form, settings

    def look_up(self, job: Job) -> Turn | Result:
        """Return what is to be restored, or what became of it already."""
        if job.failure is not None:
            return failed(job, job.failure)
        try:
            content, input_hash = (
                _video(job.source) if job.frames is not None else _photo(job.source)
            )
            if self.store.is_done(job.target, input_hash, self.settings):
                return Result(job.source, job.target, SKIPPED, job.pixels)
            self.store.refuse_changed(job.target)
            return Turn(job, input_hash, content)
        except (ScumbleError, MemoryError, OSError) as error:
            return failed(job, sentence(job, error))

    def save(self, turn: Turn, put: Callable[[IO[bytes]], None]) -> Result:
        """Write a result, and say what became of it."""
        job = turn.job
        try:
            about = (turn.input_hash, self.settings)
            self.store.save(job.target, put, job.source, about, self.form.keep_times)
        except OSError as error:
            if error.errno in _HOPELESS:
                raise RestoreError(
                    f"{job.target} cannot be written: {error.strerror}; mend that and go on with "
                    f"--resume"
                ) from error
            return failed(job, f"{job.target} cannot be written: {error.strerror or error}")
        except (ScumbleError, MemoryError, ValueError) as error:
            return failed(job, sentence(job, error))
        return Result(job.source, job.target, DONE, job.pixels)


def failed(job: Job, error: str) -> Result:
    """Return that a picture failed."""
    return Result(job.source, job.target, FAILED, job.pixels, error)


def sentence(job: Job, error: BaseException) -> str:
    """Return an error in one line that names the picture."""
    told = str(error).partition("\n")[0] or type(error).__name__
    if isinstance(error, MemoryError):
        told = "there is too little memory"
    named = str(job.source) in told or str(job.target) in told
    return told if named else f"{job.source}: {told}"


def _photo(path: Path) -> tuple[bytes, str]:
    try:
        size = path.stat().st_size
        if size > _LARGEST_FILE:
            raise ImageError(
                f"{path} needs to be a file of at most {_LARGEST_FILE / 1e9:.0f} GB, has "
                f"{size / 1e9:.1f}; it is no photo"
            )
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror or error}") from error
    return content, hashlib.sha256(content).hexdigest()


def _video(path: Path) -> tuple[bytes, str]:
    with path.open("rb") as file:
        return b"", hashlib.file_digest(file, "sha256").hexdigest()
