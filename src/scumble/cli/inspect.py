"""``scumble inspect``: what a network is made of and what it costs."""

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli.options import parse_size
from scumble.errors import CheckpointError, NetworkError, PatternError

if TYPE_CHECKING:
    from torch import nn

FILE_ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt")


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
        _open(network, belongs_to), height_width, pattern, pad_groups=pad_groups
    )
    typer.echo(json.dumps(report.to_json(), indent=2) if as_json else str(report))


def _open(network: str, belongs_to: str | None) -> "nn.Module":
    """Return the network that was named, or the one in a file."""
    from scumble.models import NetworkSpec

    if not _is_file(network):
        spec = NetworkSpec.parse(network)
        if belongs_to is not None:
            raise NetworkError(
                f"--network says which network a file belongs to, got the network {network} "
                f"itself; leave --network out"
            )
        return spec.build()
    return _load(network, None if belongs_to is None else NetworkSpec.parse(belongs_to).build())


def _is_file(text: str) -> bool:
    """Return whether a file is meant; a folder may well be called like a network."""
    return text.lower().endswith(FILE_ENDINGS) or os.sep in text or os.path.isfile(text)


def _load(path: str, network: "nn.Module | None") -> "nn.Module":
    import scumble

    if not os.path.exists(path):
        raise CheckpointError(f"there is no file {path}")
    try:
        return scumble.load(path, network)
    except CheckpointError as error:
        # What Python calls network= is an option here.
        raise CheckpointError(str(error).replace("network=", "--network")) from error
