"""``scumble inspect``: what a network is made of and what it costs."""

import json
from typing import Annotated

import typer

from scumble.cli.networks import open_network
from scumble.cli.options import parse_size
from scumble.errors import PatternError


def inspect(
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK|FILE",
            help="A network such as carn-x4 or edsr-x2,features=16 (edsr, carn, rfdn), or a file.",
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
    if pad_groups and pattern is None:
        raise PatternError("--pad-groups needs a pattern to count, got none; add --pattern 8:32")
    import scumble  # late: `scumble --help` does not wait for torch

    report = scumble.inspect(
        open_network(network, belongs_to), height_width, pattern, pad_groups=pad_groups
    )
    typer.echo(json.dumps(report.to_json(), indent=2) if as_json else str(report))
