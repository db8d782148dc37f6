"""Values that more than one command reads."""

import re
from typing import Annotated

import typer

LARGEST_SIDE = 1_000_000

DeviceOption = Annotated[
    str | None, typer.Option(help="cpu or cuda; by default cuda where there is one.")
]
ChangesOption = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe: train.steps=1000.")
]
BelongsToOption = Annotated[
    str | None,
    typer.Option("--network", help="The network that a state dict of others belongs to: rfdn-x4."),
]
EngineOption = Annotated[str, typer.Option(help="auto, or one of scumble engines.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def parse_size(text: str) -> tuple[int, int]:
    """Return height and width from WIDTHxHEIGHT."""
    written = re.fullmatch(r"(\d{1,999})x(\d{1,999})", text.strip().lower())
    size = (int(written[2]), int(written[1])) if written else (0, 0)
    if min(size) < 1:
        raise typer.BadParameter(f"a size is WIDTHxHEIGHT in pixels, such as 320x180, got {text!r}")
    if max(size) > LARGEST_SIDE:
        raise typer.BadParameter(f"a size is at most {LARGEST_SIDE} pixels a side, got {text!r}")
    return size
