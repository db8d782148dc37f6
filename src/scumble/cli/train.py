"""``scumble train``: run a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from scumble.cli.options import ChangesOption, DeviceOption


def train(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE|FILE", help="A recipe file, or the name of one of ours."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the run.")],
    changes: ChangesOption = [],  # noqa: B006 (typer's own way to say: none given)
    device: DeviceOption = None,
) -> None:
    """Train, prune or fine-tune by a recipe; a stopped run goes on where it was."""
    from scumble.cli.progress import watch
    from scumble.recipe import read_recipe
    from scumble.training.run import TrainingRun

    run = TrainingRun(read_recipe(recipe, changes), output, device=device)
    watch(run)
