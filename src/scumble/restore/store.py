"""Results on disk: whole or not at all, and what is known of those that are done.

The manifest has one line per result: the hashes of its input and of itself, and a word for all
settings. The line is written before the result is moved into its place, so that no result of ours
is ever taken for a stranger's; it counts only while the result has the hash that the line says.
"""

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO

from scumble.errors import RestoreError
from scumble.files import sync_folder
from scumble.restore.plan import WORK, Plan, refuse_outside
from scumble.version import __version__

MANIFEST = "manifest.jsonl"
_PARTIAL, _VIDEOS = "partial", "videos"

REFUSE, RESUME, OVERWRITE = "refuse", "resume", "overwrite"


@dataclass(frozen=True)
class Entry:
    """One line of the manifest."""

    target: str  # below the folder of results
    source: str
    input: str  # SHA-256 of the input file
    settings: str  # SHA-256 of all that the result depends on beside
    output: str  # SHA-256 of the result
    scumble: str = __version__


class Store:
    """The folder that results are written to."""

    def __init__(self, plan: Plan, existing: str = REFUSE) -> None:
        self.plan, self.existing = plan, existing
        self.root = os.path.realpath(plan.root)
        self.entries: dict[str, Entry] = {}
        self._numbers = count()
        self._guard = threading.Lock()
        self._manifest: IO[bytes] | None = None
        if existing == RESUME and not plan.whole_folder:
            raise RestoreError(
                f"going on is for folders of results, got the file {plan.jobs[0].target}; leave "
                f"--resume out"
            )

    def __enter__(self) -> "Store":
        try:
            self.plan.root.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            reason = error.strerror or str(error)
            raise RestoreError(f"{self.plan.root} cannot be written to: {reason}") from error
        try:
            self._refuse_existing()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A manifest and segments are kept for the next time, if there are any.
        videos = self._work / _VIDEOS
        if videos.is_dir() and not any(videos.iterdir()):
            videos.rmdir()
        nothing = self._manifest is None or not (self.entries or videos.exists())
        shutil.rmtree(self._work if nothing else self._partial, ignore_errors=True)
        if self._manifest is not None:
            self._manifest.close()

    def segments(self, input_hash: str, settings: str) -> Path:
        """Return the folder for the segments of a video, which is the same each time."""
        return self._work / _VIDEOS / f"{input_hash[:16]}-{settings[:16]}"

    def is_done(self, target: Path, input_hash: str, settings: str) -> bool:
        """Return whether a result is there, of this input by these settings."""
        entry = self.entries.get(self._name(target))
        return (
            self.existing == RESUME
            and entry is not None
            and (entry.input, entry.settings) == (input_hash, settings)
            and target.is_file()
            and _hash_of(target) == entry.output
        )

    def refuse_changed(self, target: Path) -> None:
        """Refuse to replace, when going on, what is not as it was written."""
        if self.existing != RESUME or not target.exists():
            return
        entry = self.entries.get(self._name(target))
        if entry is None or _hash_of(target) != entry.output:
            raise RestoreError(
                f"{target} was changed since it was written; move it away, or add --overwrite"
            )

    def save(
        self,
        target: Path,
        write: Callable[[IO[bytes]], None],
        source: Path,
        about: tuple[str, str],
        keep_times: bool = False,
    ) -> None:
        """Write a result and note it; ``about`` has the hashes of input and settings."""
        partial = self._partial / f"{next(self._numbers)}.part"
        try:
            with partial.open("w+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if keep_times:
                times = source.stat()
                os.utime(partial, ns=(times.st_atime_ns, times.st_mtime_ns))
            target.parent.mkdir(parents=True, exist_ok=True)
            refuse_outside(target, self.root)
            self._note(Entry(self._name(target), os.fsdecode(source), *about, _hash_of(partial)))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(target.parent)

    def _note(self, entry: Entry) -> None:
        with self._guard:
            self.entries[entry.target] = entry
            if self._manifest is not None:
                self._manifest.write(json.dumps(asdict(entry)).encode() + b"\n")
                self._manifest.flush()
                os.fsync(self._manifest.fileno())

    def _open(self) -> None:
        """Take the folder, read what is done in it, and sweep what was not finished."""
        if not self.plan.whole_folder:
            self._work = Path(tempfile.mkdtemp(prefix=f"{WORK}-", dir=self.root))
            self._partial = self._work / _PARTIAL
            self._partial.mkdir()
            return
        self._work = Path(self.root) / WORK
        refuse_outside(self._work / MANIFEST, self.root)
        self._partial = self._work / _PARTIAL
        self._work.mkdir(exist_ok=True)
        self._manifest = (self._work / MANIFEST).open("a+b")
        try:
            _lock(self._manifest, self.plan.root)
        except BaseException:
            self._manifest.close()
            raise
        self._manifest.seek(0)
        content = self._manifest.read()
        self.entries = _parsed(content)
        if content and not content.endswith(b"\n"):
            self._manifest.write(b"\n")
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir()

    def _refuse_existing(self) -> None:
        """Refuse results that stand there already, unless it was said what to do with them."""
        if self.existing == OVERWRITE:
            return
        there = [job.target for job in self.plan.jobs if not job.failure and job.target.exists()]
        strange = [target for target in there if self._name(target) not in self.entries]
        refused = strange if self.existing == RESUME else there
        if not refused:
            return
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        if self.existing == RESUME:
            raise RestoreError(
                f"{refused[0]}{more} exists and was not written by scumble restore; move it away, "
                f"or add --overwrite"
            )
        resume = "--resume to keep what is done, or " if self.plan.whole_folder else ""
        raise RestoreError(
            f"{refused[0]}{more} exists already; add {resume}--overwrite to write it again"
        )

    def _name(self, target: Path) -> str:
        return target.relative_to(self.plan.root).as_posix()


def _parsed(content: bytes) -> dict[str, Entry]:
    """Return the entries of a manifest; a line that a kill cut short says nothing."""
    found: dict[str, Entry] = {}
    for line in content.splitlines():
        try:
            entry = Entry(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[entry.target] = entry
    return found


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock(file: IO[bytes], folder: Path) -> None:
    """Let no other process write to the folder while the file is open."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RestoreError(
            f"another process is writing results to {folder}; wait for it, or give another folder"
        ) from error
