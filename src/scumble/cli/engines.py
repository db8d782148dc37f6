"""``scumble engines``: which engines there are, and what keeps them from running a network."""

import json
from typing import Annotated

import typer

from scumble.cli.options import BelongsToOption, JsonOption

ORDINARY = "edsr-x2,blocks=1"


def engines(
    model: Annotated[
        str | None,
        typer.Option("-n", "--model", help="Ask about this network: a name, or a file."),
    ] = None,
    belongs_to: BelongsToOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the engines, and whether each can run a network on this machine."""
    from scumble.cli.networks import open_trained
    from scumble.engines.survey import survey
    from scumble.machine import machine

    found, here = survey(open_trained(model or ORDINARY, belongs_to)), machine()
    if as_json:
        told = {one.engine: one.to_json() for one in found}
        typer.echo(json.dumps({"network": model, "machine": here, "engines": told}, indent=2))
        return
    typer.echo(f"{model or 'an ordinary network'} on {here['cpu']}, {here['cores']} cores:")
    for standing in found:
        typer.echo(f"  {standing}")
