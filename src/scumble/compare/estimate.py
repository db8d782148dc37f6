"""What a comparison is going to cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from scumble.compare.cell_folder import CellFolder
from scumble.errors import ScumbleError
from scumble.inspection import inspect
from scumble.models import NetworkSpec
from scumble.recipe import Recipe
from scumble.training.prepare import check_recipe

# Forward, and backward by inputs and by weights.
PASSES = 3


@dataclass(frozen=True)
class Estimate:
    """What is left to do in one cell."""

    steps: int
    petamacs: float  # of a dense step, times the steps
    seconds: float | None = None  # by the pace of this folder's runs; None if none has run


def estimates(folders: Sequence[CellFolder]) -> dict[str, Estimate]:
    """Return what every cell is going to cost, by its name."""
    found: dict[str, Estimate] = {}
    paces: list[float] = []
    for folder in folders:
        recipe = folder.cell.recipe
        if recipe is None:
            continue
        per_step = _petamacs_per_step(recipe)
        done, seconds = folder.steps_done(), folder.result().seconds
        if done and seconds:
            paces.append(seconds / (done * per_step))
        left = 0 if folder.finished else max(0, recipe.train.steps - done)
        found[folder.cell.name] = Estimate(left, left * per_step)
    if not paces:
        return found
    pace = median(paces)
    return {
        name: Estimate(one.steps, one.petamacs, one.petamacs * pace) for name, one in found.items()
    }


def refusal(folder: CellFolder) -> str | None:
    """Return why a cell could not start, as far as that can be seen without its files."""
    if folder.cell.refusal is not None or folder.cell.recipe is None:
        return folder.cell.refusal
    try:
        check_recipe(folder.cell.recipe)
    except ScumbleError as error:
        return str(error)
    return None


def _petamacs_per_step(recipe: Recipe) -> float:
    spec = NetworkSpec.of(recipe.network.name, **recipe.network.arguments)
    macs = _macs(str(spec), tuple(sorted(spec.other_arguments.items())), recipe.data.patch)
    return PASSES * macs * recipe.train.batch / 1e15


@cache
def _macs(name: str, arguments: tuple[tuple[str, int], ...], side: int) -> int:
    network = NetworkSpec.of(name, **dict(arguments)).build()
    return inspect(network, (side, side)).cost.conv_macs
