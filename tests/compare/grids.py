"""Grids that train within seconds."""

from pathlib import Path

import yaml

from scumble.compare import Plan, make_plan

BASE = {
    "network": {"name": "edsr-x2", "arguments": {"features": 16, "blocks": 1}},
    "data": {"photos": "photos", "patch": 12, "validation": 0},
    "train": {"steps": 12, "batch": 2, "lr": 1e-3},
    "prune": {"method": "oneshot", "m": 16, "budget": "1/4", "size": [24, 24]},
    "watch": {"log_every": 2, "save_every": 3},
}


def write_grid(path: Path, photos: Path, **changes: object) -> Path:
    """Write a grid of one-shot cells at two budgets, and what is to be else."""
    base = {**BASE, "data": {**BASE["data"], "photos": str(photos)}}
    grid = {"base": base, "methods": ["oneshot"], "budgets": ["1/2", "1/4"], **changes}
    path.write_text(yaml.safe_dump(grid))
    return path


def small_plan(tmp_path: Path, photos: Path, **changes: object) -> Plan:
    grid = write_grid(tmp_path / "grid.yaml", photos, **changes)
    return make_plan([str(grid)], data=[str(photos)])
