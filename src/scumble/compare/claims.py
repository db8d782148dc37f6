"""Who works on a cell: one process at a time, on however many machines.

A claim is a numbered file that is created exclusively; the highest number rules. Nobody removes or
rewrites the claim of another: whoever takes over from the dead creates the next number, which only
one process can. So there is no moment at which two of them could both have taken a cell.
"""

import json
import os
import platform
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

from scumble.errors import ComparisonError
from scumble.files import atomic_write

FOLDER = "claims"
BEAT = 15.0  # seconds between two signs of life
PATIENCE = 300.0  # seconds without one after which a process elsewhere counts as dead


@dataclass(frozen=True)
class Holder:
    """The process behind a claim."""

    token: str
    machine: str  # two processes with the same can see each other by their numbers
    host: str  # for people
    process: int
    born: str  # tells apart two processes of one number
    released: bool = False

    @classmethod
    def me(cls) -> "Holder":
        """Return this process, with a new token."""
        number = os.getpid()
        return cls(uuid.uuid4().hex, _machine(), platform.node(), number, _born(number))

    @property
    def dead(self) -> bool | None:
        """Return whether the process has ended; None for one elsewhere, which cannot be seen."""
        if self.machine != _machine():
            return None
        return not _lives(self.process) or _born(self.process) != self.born


class Claim:
    """The right to work on a cell, for as long as the block lasts."""

    def __init__(self, path: Path, holder: Holder, beat: float = BEAT) -> None:
        self.path, self.holder, self.beat = path, holder, beat
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._live, daemon=True)

    @property
    def lost(self) -> bool:
        """Return whether another process took over, which believed this one dead."""
        return _highest(self.path.parent) != int(self.path.name)

    def check(self) -> None:
        """Refuse to go on with what another process has taken over."""
        if self.lost:
            raise ClaimLostError(
                f"{self.path.parent.parent.name} was taken over by another process"
            )

    def __enter__(self) -> "Claim":
        self._heart.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._heart.join()
        with suppress(OSError):  # then it is free as soon as this process has ended
            _write(self.path, replace(self.holder, released=True))

    def _live(self) -> None:
        while not self._ended.wait(self.beat):
            try:
                os.utime(self.path)
            except OSError:
                continue  # the disk may come back; if not, others will take over


class ClaimLostError(ComparisonError):
    """A cell that another process works on by now."""


def take(cell: Path, patience: float = PATIENCE, beat: float = BEAT) -> Claim | None:
    """Return the claim to a cell's folder, or None if another process has it."""
    try:
        return _take(cell, patience, beat)
    except OSError as error:
        raise ComparisonError(f"{cell} cannot be worked in: {error.strerror}") from error


def _take(cell: Path, patience: float, beat: float) -> Claim | None:
    folder = cell / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    # The number is read once: if anybody takes the cell from here on, ours is taken too.
    number = _highest(folder)
    if _holder(folder, number, patience) is not None:
        return None
    path, me = folder / f"{number + 1:06}", Holder.me()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return None
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(asdict(me)))
    return Claim(path, me, beat)


def holder_of(cell: Path, patience: float = PATIENCE) -> Holder | None:
    """Return who works on a cell; None if nobody does."""
    folder = cell / FOLDER
    return _holder(folder, _highest(folder), patience)


def _holder(folder: Path, number: int, patience: float) -> Holder | None:
    """Return who holds the claim of a number; None if nobody does any more."""
    if number == 0:
        return None
    path = folder / f"{number:06}"
    holder = _read(path)
    if holder.released:
        return None
    dead = holder.dead
    if dead is None:
        dead = _age(path) > patience
    return None if dead else holder


def _highest(folder: Path) -> int:
    """Return the number of the claim that rules; 0 if there is none."""
    if not folder.is_dir():
        return 0
    return max((int(name) for name in os.listdir(folder) if name.isdecimal()), default=0)


def _read(path: Path) -> Holder:
    """Return who is behind a claim; a stranger if that is not written yet, or was cut short."""
    try:
        return Holder(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return Holder("", "", "an unknown machine", 0, "")


def _write(path: Path, holder: Holder) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(asdict(holder)).encode())


def _age(path: Path) -> float:
    """Return the seconds since a claim's last sign of life, by the clock of its disk.

    The clocks of two machines differ; a file written just now has the time of the disk.
    """
    probe = path.parent / f".{uuid.uuid4().hex}"
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except OSError:
        return time.time() - path.stat().st_mtime if path.exists() else 0.0
    finally:
        probe.unlink(missing_ok=True)


def _machine() -> str:
    """Return what processes share that can see each other: the machine, since it was started."""
    parts = [platform.node()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(source)
        if path.is_symlink():
            parts.append(os.readlink(path))
        elif path.exists():
            parts.append(path.read_text().strip())
    return " ".join(parts)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is there, and belongs to somebody else
    return True


def _born(process: int) -> str:
    """Return when a process began, as Linux counts; nothing elsewhere."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    # The name in brackets may hold anything, so what counts begins after the last one.
    words = told.rpartition(")")[2].split()
    return "" if words[0] == "Z" else words[19]
