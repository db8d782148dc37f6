"""``scumble export``: a network as a file for other programs."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli.networks import is_file, open_network
from scumble.cli.options import BelongsToOption, JsonOption
from scumble.errors import CheckpointError, ExportError

if TYPE_CHECKING:
    from torch import nn


def export(
    model: Annotated[str, typer.Option("-n", "--model", help="A network of the zoo, or a file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write: .onnx, .safetensors, .pth.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "-f", "--format", help="onnx, safetensors or torch; by default by the output's ending."
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare with the network on three sizes."),
    ] = False,
    belongs_to: BelongsToOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a network for other programs: ONNX, or plain weights."""
    from rich.console import Console

    import scumble

    if output.exists() and Path(model).exists() and output.samefile(model):
        raise ExportError(f"{output} is the network itself; choose another name to write to")
    network, licence = _open(model, belongs_to)
    console = Console(file=sys.stderr, quiet=not sys.stderr.isatty())
    with console.status(f"exporting {model}"):
        done = scumble.export(network, output, format=kind, verify=verify, licence=licence)
    typer.echo(json.dumps(done.to_json(), indent=2) if as_json else str(done))


def _open(model: str, belongs_to: str | None) -> "tuple[nn.Module, str | None]":
    """Return a trained network, and its licence where its file tells one."""
    import scumble

    if is_file(model) or belongs_to is not None:
        network = open_network(model, belongs_to)
    else:
        network = scumble.load(model)
    with suppress(CheckpointError):  # a file of others says nothing of itself
        return network, scumble.read_info(model).licence
    return network, None
