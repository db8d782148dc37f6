"""From a network to a file that other programs read."""

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

import scumble.exports.onnx_model
import scumble.exports.weights  # noqa: F401 (these two register their formats)
from scumble.errors import ExportError
from scumble.exports.comparison import Comparison, compare, pictures
from scumble.exports.facts import Facts
from scumble.exports.formats import format_for
from scumble.files import atomic_write


@dataclass(frozen=True)
class Exported:
    """A file that was written; print it for a sentence."""

    path: Path
    format: str
    facts: Facts
    bytes: int
    comparison: Comparison | None  # with the network itself; None if nobody asked

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "path": str(self.path),
            "format": self.format,
            "bytes": self.bytes,
            **self.facts.properties(),
            "patterns": self.facts.patterns,
            "verified": None if self.comparison is None else self.comparison.to_json(),
        }

    def __str__(self) -> str:
        told = f"{self.path}: {self.facts} as {self.format}, {self.bytes / 1e6:.2f} MB"
        return told if self.comparison is None else f"{told}; {self.comparison}"


def export(
    network: nn.Module,
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (what everybody calls it)
    verify: bool = False,
    licence: str | None = None,
) -> Exported:
    """Write a network for other programs; pruned weights become zeros in place.

    Args:
        network: a plain network, dense or from ``finalize``; it is not changed.
        path: the file to write; it appears whole or not at all.
        format: ``onnx`` for any number of RGB pictures of any size, ``safetensors`` or ``torch``
            for a state dict under the original keys; by default what the path's ending says.
        verify: run the file on pictures of three sizes, and keep it only if it makes what the
            network makes, to 1e-4.
        licence: under which the network may be used; ONNX and safetensors carry it.

    >>> import scumble
    >>> print(scumble.export(scumble.load("carn-x4"), "carn-x4.onnx"))
    carn-x4.onnx: carn-x4 dense as onnx, 4.46 MB
    """
    path = Path(path)
    chosen = format_for(path, format)
    chosen.check_libraries(verify)
    _refuse_unwritable(path)
    facts = Facts.of(network, licence)
    ready = copy.deepcopy(network).cpu().float().eval()
    content = chosen.content(ready, facts)
    comparison = None
    if verify:
        run = chosen.opened(content, copy.deepcopy(ready))
        comparison = compare(ready, run, pictures(ready))
    _write(path, content)
    return Exported(path, chosen.name, facts, len(content), comparison)


def _refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done for it."""
    if not path.parent.is_dir():
        raise ExportError(f"{path} needs a folder to be in, there is no {path.parent}; make it")
    if path.is_dir():
        raise ExportError(f"{path} needs to be a file, there is a folder of that name")
    if not os.access(path.parent, os.W_OK):
        raise ExportError(f"{path} could not be written: {path.parent} may not be changed")


def _write(path: Path, content: bytes) -> None:
    try:
        with atomic_write(path) as file:
            file.write(content)
    except (OSError, ValueError) as error:  # the latter: a path that no system takes
        reason = getattr(error, "strerror", None) or str(error)
        raise ExportError(f"{path} could not be written: {reason}") from error
