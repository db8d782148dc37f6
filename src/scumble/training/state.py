"""Everything a stopped run needs to go on as if it had not been stopped."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scumble.errors import CheckpointError, TrainingError
from scumble.recipe import in_full
from scumble.sealed import read_sealed, write_sealed
from scumble.training.step import TrainStep

FORMAT = "scumble training state 1"

State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and what the file says of them


@dataclass(frozen=True)
class Progress:
    """How far a run has come; everything else is in tensors."""

    step: int = 0  # steps done
    best: float | None = None  # highest validation score of a network that met its budget


@dataclass(frozen=True)
class Origin:
    """What a run is made from; it goes on only with the same."""

    recipe: dict[str, Any]
    photos: str  # a digest of the names and sizes of its photos
    teacher: str | None = None  # a digest of its teacher's weights


def save_state(path: Path, step: TrainStep, progress: Progress, origin: Origin) -> None:
    """Write the state of a run, whole or not at all."""
    tensors = state_tensors(step)
    tensors["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    write_sealed(path, tensors, {"kind": FORMAT, **asdict(progress), **asdict(origin)})


def state_tensors(step: TrainStep) -> dict[str, Tensor]:
    """Return everything that training changes, by name."""
    tensors = {f"network/{key}": value for key, value in step.network.state_dict().items()}
    for index, state in step.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{key}": torch.as_tensor(v) for key, v in state.items()}
    if step.ema is not None:
        tensors |= {f"ema/{key}": value for key, value in step.ema.tensors().items()}
    return tensors


def read_state(path: Path, recipe: dict[str, Any]) -> State | None:
    """Return the state of a run by this recipe; None if it has none yet."""
    if not path.exists():
        return None
    try:
        tensors, info = read_sealed(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; remove it to begin the run again") from error
    if info is None or info.get("kind") != FORMAT:
        raise CheckpointError(f"{path} is not the state of a training run; remove it, or move it")
    begun = in_full(info["recipe"])
    if begun != recipe:
        changed = ", ".join(_changed(begun, recipe))
        raise TrainingError(
            f"{path} belongs to a run of another recipe ({changed}); "
            f"give another folder, or the same recipe"
        )
    return tensors, info


def restore_state(path: Path, state: State, step: TrainStep, origin: Origin) -> Progress:
    """Bring a run to where ``save_state`` was called."""
    tensors, info = state
    for thing, what in (("photos", "on other photos"), ("teacher", "with another teacher")):
        if info.get(thing) != getattr(origin, thing):
            raise TrainingError(
                f"{path} belongs to a run {what}; give it the {thing} that it began with, "
                f"or another folder"
            )
    step.network.load_state_dict(_part(tensors, "network"))
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in _part(tensors, "optimizer").items():
        index, name = key.split("/")
        states.setdefault(int(index), {})[name] = value
    groups = step.optimizer.state_dict()["param_groups"]
    step.optimizer.load_state_dict({"state": states, "param_groups": groups})
    _lay_out_(step.optimizer)
    if step.ema is not None:
        step.ema.restore(_part(tensors, "ema"))
    torch.set_rng_state(tensors["random/cpu"])
    if torch.cuda.is_available() and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return Progress(info["step"], info["best"])


def _lay_out_(optimizer: torch.optim.Optimizer) -> None:
    """Lay moments out in memory as their parameters are: a fused optimizer takes no others."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if value.shape == parameter.shape:
                state[name] = torch.empty_like(parameter).copy_(value)


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
