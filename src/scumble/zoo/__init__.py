"""Trained networks that come with the package."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any


def manifest() -> dict[str, dict[str, Any]]:
    """Return what is known of every network in the zoo, by name."""
    return json.loads((files("scumble.zoo") / "manifest.json").read_text())


def names() -> list[str]:
    """Return the names of the networks in the zoo."""
    return sorted(manifest())


def find(name: str) -> Path:
    """Return the file of a network in the zoo."""
    with as_file(files("scumble.zoo") / f"{name}.safetensors") as path:
        return path
