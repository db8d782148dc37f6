"""What lies in the folder of a training run, and how its log is read."""

import json
from pathlib import Path
from typing import Any

STATE, BEST, FINAL = "state.safetensors", "best.safetensors", "network.safetensors"
RECIPE, LOG, STARTS = "recipe.yaml", "log.jsonl", "starts.json"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a run; a last line that was cut short by a kill is left out."""
    events: list[dict[str, Any]] = []
    for line in (folder / LOG).read_text().splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Return where and on what a run was started; nothing if nobody wrote it down."""
    try:
        found = json.loads((folder / STARTS).read_text())
    except (OSError, json.JSONDecodeError):
        return []
    return found if isinstance(found, list) else []
