"""Captures that later processes find again: a file for each, never with weights in it."""

import hashlib
import json
import logging
from pathlib import Path

from torch import nn

from scumble.engines.cpu.blueprint import Blueprint, check
from scumble.engines.cpu.fingerprint import fingerprint
from scumble.engines.cpu.structure import from_json, to_json
from scumble.errors import ScumbleError
from scumble.files import atomic_write

FORMAT = 1

# What a file that somebody else wrote, or that was cut short, may lead to.
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    ScumbleError,
)

log = logging.getLogger(__name__)


def file_of(network: nn.Module, folder: Path) -> Path | None:
    """Return the file for a network; None for one whose behaviour cannot be told by its code."""
    key = fingerprint(network)
    return None if key is None else folder / f"capture-{key}.json"


def recall(path: Path, network: nn.Module) -> Blueprint | None:
    """Return what was remembered of a network; None if nothing was, or nothing to trust."""
    try:
        file = json.loads(path.read_bytes())
        content = file["content"]
        if [file["format"], file["key"], file["sha256"]] != [FORMAT, path.stem, _digest(content)]:
            raise ValueError("it is damaged, or of another time")
        blueprint = from_json(Blueprint, json.loads(content))
        check(blueprint, network)
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        log.warning("a remembered capture is not used: %s: %s", path, error)
        return None
    return blueprint


def remember(path: Path, blueprint: Blueprint) -> None:
    """Write a blueprint for later processes; where that fails, they capture anew."""
    content = json.dumps(to_json(blueprint), separators=(",", ":"))
    file = {"format": FORMAT, "key": path.stem, "sha256": _digest(content), "content": content}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as opened:
            opened.write(json.dumps(file).encode())
    except OSError as error:
        log.warning("a capture could not be remembered: %s: %s", path, error)


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
