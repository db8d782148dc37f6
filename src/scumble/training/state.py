"""Everything a stopped run needs to go on as if it had not been stopped."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scumble.errors import CheckpointError, TrainingError
from scumble.sealed import read_sealed, write_sealed
from scumble.training.step import TrainStep

FORMAT = "scumble training state 1"


@dataclass(frozen=True)
class Progress:
    """How far a run has come; everything else is in tensors."""

    step: int = 0  # steps done
    best: float | None = None  # highest validation score of a network that met its budget


def save_state(path: Path, step: TrainStep, progress: Progress, recipe: dict[str, Any]) -> None:
    """Write the state of a run, whole or not at all."""
    tensors = {f"network/{key}": value for key, value in step.network.state_dict().items()}
    for index, state in step.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{key}": torch.as_tensor(v) for key, v in state.items()}
    if step.ema is not None:
        tensors |= {f"ema/{key}": value for key, value in step.ema.tensors().items()}
    tensors["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    info = {"kind": FORMAT, "step": progress.step, "best": progress.best, "recipe": recipe}
    write_sealed(path, tensors, info)


def load_state(path: Path, step: TrainStep, recipe: dict[str, Any]) -> Progress:
    """Bring a run to where ``save_state`` was called."""
    tensors, info = read_sealed(path)
    if info is None or info.get("kind") != FORMAT:
        raise CheckpointError(f"{path} is not the state of a training run")
    if info["recipe"] != recipe:
        changed = ", ".join(_changed(info["recipe"], recipe))
        raise TrainingError(
            f"{path} belongs to a run of another recipe ({changed}); "
            f"give another folder, or the same recipe"
        )
    step.network.load_state_dict(_part(tensors, "network"))
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in _part(tensors, "optimizer").items():
        index, name = key.split("/")
        states.setdefault(int(index), {})[name] = value
    groups = step.optimizer.state_dict()["param_groups"]
    step.optimizer.load_state_dict({"state": states, "param_groups": groups})
    if step.ema is not None:
        step.ema.restore(_part(tensors, "ema"))
    torch.set_rng_state(tensors["random/cpu"])
    if torch.cuda.is_available() and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return Progress(info["step"], info["best"])


def _part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    prefix = f"{name}/"
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _changed(before: Any, after: Any, place: str = "") -> list[str]:
    """Return the names of the keys that differ."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [] if before == after else [f"{place}: {before} then, {after} now"]
    keys = sorted({*before, *after})
    inner = (_changed(before.get(k), after.get(k), f"{place}.{k}".strip(".")) for k in keys)
    return [name for names in inner for name in names]
