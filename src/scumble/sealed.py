"""Safetensors files that notice when a byte of them has changed."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from scumble.errors import CheckpointError
from scumble.files import atomic_write

# The seal stands in the file's own header. It is taken over all bytes, with zeros in its place.
_SEAL = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_UNSEALED = "0" * 64
_HEADER_LENGTH = 8
_LONGEST_HEADER = 100_000_000  # what safetensors itself reads at most

_LONGEST = 1000  # letters of an error


def write_sealed(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Write tensors and their explanation to ``path``, whole or not at all."""
    metadata = {"scumble": json.dumps(info, sort_keys=True), "sha256": _UNSEALED}
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = in_order(safetensors.torch.save(whole, metadata))
    place = _seal_place(content)
    assert place is not None
    seal = hashlib.sha256(content).hexdigest().encode()
    try:
        with atomic_write(path) as file:
            file.write(content[: place.start] + seal + content[place.stop :])
    except (OSError, ValueError) as error:  # the latter: a path that no system takes
        reason = getattr(error, "strerror", None) or str(error)
        raise refusal(f"{path} could not be written: {reason}") from error


def read_sealed(path: Path) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Return the tensors of a file and their explanation, which a foreign file lacks."""
    content = read_bytes(path)
    if not _begins_like_one(content):
        raise refusal(f"{path} is not a safetensors file")
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError, OverflowError) as error:
        raise refusal(f"{path} is not a whole safetensors file: {error}") from error
    header = _header(content)
    metadata = _parsed(path, header.decode()).get("__metadata__") or {}
    if "scumble" not in metadata:
        return tensors, None
    place = _seal_place(content)
    if place is None:
        raise CheckpointError(f"{path} has lost its seal; it was changed after it was written")
    unsealed = content[: place.start] + _UNSEALED.encode() + content[place.stop :]
    if hashlib.sha256(unsealed).hexdigest().encode() != content[place]:
        raise CheckpointError(f"{path} does not match its seal; it was changed or damaged")
    return tensors, _parsed(path, metadata["scumble"])


def refusal(text: str) -> CheckpointError:
    """Return the error that says ``text`` on one line, though a file may have put in anything."""
    printable = "".join(sign if sign.isprintable() else "?" for sign in text)
    return CheckpointError(printable if len(printable) <= _LONGEST else printable[:_LONGEST] + "…")


def read_bytes(path: Path) -> bytes:
    """Return what is in a file, or say in one sentence why it cannot be read."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path} is a device or pipe, a checkpoint is a file")
        return path.read_bytes()
    except IsADirectoryError as error:
        raise CheckpointError(f"{path} is a folder, a checkpoint is a file") from error
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"{path} cannot be read: {reason}") from error


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """Return the JSON object in ``text``, whoever wrote it."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: nested too deep
        raise refusal(f"{path}: its description is not JSON that can be read: {error}") from error
    if not isinstance(parsed, dict):
        kind = type(parsed).__name__
        raise refusal(f"{path}: its description needs to be a JSON object, got {kind}")
    return parsed


def in_order(content: bytes) -> bytes:
    """Return the same file with its metadata sorted: safetensors shuffles them each time."""
    header = json.loads(_header(content))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % _HEADER_LENGTH)
    data = content[_HEADER_LENGTH + len(_header(content)) :]
    return len(written).to_bytes(_HEADER_LENGTH, "little") + written + data


def _begins_like_one(content: bytes) -> bool:
    """Return whether a file begins like safetensors: a length that is possible, then JSON."""
    length = int.from_bytes(content[:_HEADER_LENGTH], "little")
    return length <= _LONGEST_HEADER and content[_HEADER_LENGTH:].startswith(b"{")


def _header(content: bytes) -> bytes:
    length = int.from_bytes(content[:_HEADER_LENGTH], "little")
    return content[_HEADER_LENGTH : _HEADER_LENGTH + length]


def _seal_place(content: bytes) -> slice | None:
    found = _SEAL.search(_header(content))
    return slice(*(_HEADER_LENGTH + end for end in found.span(1))) if found else None
