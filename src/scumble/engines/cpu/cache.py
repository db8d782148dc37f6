"""What is remembered from one process to the next: machine code, captures, measurements.

Everything can be deleted at any time; what is damaged is made anew. Files appear whole or not at
all, so that processes that start together do not disturb each other.
"""

import hashlib
import logging
import os
from functools import cache
from pathlib import Path

import llvmlite
from llvmlite import binding as llvm

from scumble.engines.cpu.target import Target, host_features
from scumble.files import atomic_write
from scumble.version import __version__

VARIABLE = "SCUMBLE_CACHE"
_DIGEST = 32  # bytes

log = logging.getLogger(__name__)


def folder() -> Path:
    """Return where things are remembered: ``SCUMBLE_CACHE``, or the user's own folder for that."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "scumble"


@cache
def build_key(target: Target) -> str:
    """Return a word for all that machine code depends on: sources, versions, processor."""
    known = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        known.update(source.read_bytes())
    features = sorted(name for name, on in host_features().items() if on)
    parts = (__version__, llvmlite.__version__, llvm.llvm_version_info, llvm.get_host_cpu_name())
    known.update(repr((target, features, parts)).encode())
    return known.hexdigest()[:24]


def recall(name: str) -> bytes | None:
    """Return what was remembered under a name; None if nothing was, or if it is damaged."""
    try:
        content = (folder() / name).read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    return rest if _digest(name, rest) == digest else None


def remember(name: str, content: bytes) -> None:
    """Write something for later processes; where that fails, they make it anew."""
    path = folder() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(path) as file:
            file.write(_digest(name, content) + content)
    except OSError as error:
        log.warning("%s could not be remembered: %s", path, error)


def _digest(name: str, content: bytes) -> bytes:
    """Return a hash, of the name too: code under another name must not be called."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
