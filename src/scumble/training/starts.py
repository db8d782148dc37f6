"""Where a run was started, and on what: its results depend on the machine and the versions."""

import json
from datetime import UTC, datetime
from pathlib import Path

import torch

from scumble.files import atomic_write
from scumble.machine import command, machine, versions
from scumble.run_folder import STARTS, read_starts


def note_start(folder: Path, step: int, device: str) -> None:
    """Add this start to those of a run, unless it is the last one again."""
    where = {"machine": machine(), "device": _name(device), "versions": versions()}
    known = read_starts(folder)
    if known and all(known[-1].get(key) == value for key, value in where.items()):
        return
    date = datetime.now(UTC).isoformat(timespec="seconds")
    known.append({"step": step, "date": date, "command": command(), **where})
    with atomic_write(folder / STARTS) as file:
        file.write((json.dumps(known, indent=1) + "\n").encode())


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device
