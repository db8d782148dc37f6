"""A recipe from a few words: what ``scumble prune`` runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scumble.checkpoint import read_info
from scumble.devices import pick_device
from scumble.errors import CheckpointError
from scumble.models import NetworkSpec
from scumble.recipe import Recipe, change_recipe

# With fewer steps than this, everything that happens every so often happens more often.
FULL_SCHEDULE = 60_000


def pruning_recipe(
    network: str,
    photos: Path,
    method: str,
    budget: str,
    m: int,
    steps: int,
    changes: Sequence[str] = (),
    device: str | None = None,
    belongs_to: str | None = None,
) -> Recipe:
    """Return the recipe that prunes a trained network on a folder of photos."""
    spec = _dense_spec(network, belongs_to)
    pace = min(1.0, steps / FULL_SCHEDULE)
    content: dict[str, Any] = {
        "network": {"name": str(spec), "start": network, "arguments": spec.other_arguments},
        "data": {"photos": str(photos)},
        "train": {
            "steps": steps,
            "lr": 2e-4,
            "schedule": "cosine",
            "ema": 0.999 if pace == 1 else 0.99,
            "precision": "bf16" if pick_device(device).type == "cuda" else "fp32",
        },
        "prune": {
            "method": method,
            "m": m,
            "budget": budget,
            "growth": 1.3,
            "min_progress": 0.1,
            "look_every": max(1, round(250 * pace)),
            "rerank_every": max(1, round(1000 * pace)),
            "check_every": max(1, round(20 * pace)),
        },
        "watch": {
            "log_every": max(1, round(100 * pace)),
            "validate_every": max(1, round(2000 * pace)),
            "save_every": max(1, round(2000 * pace)),
        },
    }
    return change_recipe(content, changes)


def _dense_spec(network: str, belongs_to: str | None) -> NetworkSpec:
    """Return what the file of a trained, dense network of ours holds."""
    if belongs_to is not None:
        return NetworkSpec.parse(belongs_to)
    info = read_info(network)
    if info.network is None:
        raise CheckpointError(
            f"{network} holds a network that is not ours, which only Python can prune: "
            f"scumble.sparsify"
        )
    if info.patterns:
        raise CheckpointError(
            f"{network} is pruned already, and pruning starts from a dense network; "
            f"give the one that it came from"
        )
    return info.network
