"""``scumble prune``: a trained network in, a pruned one out."""

from pathlib import Path
from typing import Annotated

import typer

from scumble.cli.options import BelongsToOption, ChangesOption, DeviceOption


def prune(
    network: Annotated[
        str,
        typer.Argument(metavar="NETWORK|FILE", help="A trained network: of the zoo, or a file."),
    ],
    data: Annotated[Path, typer.Option(help="Folder of photos to train on.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the run.")],
    method: Annotated[str, typer.Option(help="sls, oneshot, sr-ste or filter.")] = "sls",
    budget: Annotated[str, typer.Option(help="What may remain: 1/8, 12.5%, 13.02e9.")] = "1/8",
    m: Annotated[int, typer.Option("-m", "--group", help="Group size.")] = 32,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 60_000,
    belongs_to: BelongsToOption = None,
    changes: ChangesOption = [],  # noqa: B006 (typer's own way to say: none given)
    device: DeviceOption = None,
) -> None:
    """Prune a trained network to a budget while training it further."""
    from scumble.cli.progress import watch
    from scumble.training.run import TrainingRun
    from scumble.training.shortcut import pruning_recipe

    recipe = pruning_recipe(network, data, method, budget, m, steps, changes, device, belongs_to)
    watch(TrainingRun(recipe, output, device=device))
