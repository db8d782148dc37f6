"""``scumble inspect``: what a network is made of and what it costs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli.options import parse_size

if TYPE_CHECKING:
    from torch import nn

FILE_ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt")


def inspect(
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK|FILE", help="A network such as carn-x4 (edsr, carn, rfdn), or a file."
        ),
    ],
    size: Annotated[str, typer.Option(help="Width x height of the input.")] = "320x180",
    pattern: Annotated[
        str | None, typer.Option(help="Count as if pruned to this pattern, such as 8:32.")
    ] = None,
    pad_groups: Annotated[
        bool, typer.Option("--pad-groups", help="Let the pattern prune layers of any width.")
    ] = False,
    belongs_to: Annotated[
        str | None,
        typer.Option("--network", help="The network that a state dict of others belongs to."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the layers of a network and what they cost."""
    height_width = parse_size(size)
    import scumble  # late: `scumble --help` does not wait for torch

    report = scumble.inspect(
        _open(network, belongs_to), height_width, pattern, pad_groups=pad_groups
    )
    typer.echo(json.dumps(report.to_json(), indent=2) if as_json else str(report))


def _open(network: str, belongs_to: str | None) -> "nn.Module":
    import scumble

    if network.endswith(FILE_ENDINGS) or "/" in network or Path(network).exists():
        return scumble.load(network, belongs_to)
    return scumble.build(network)
