"""``scumble evaluate``: score a network on pictures."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from scumble.cli.options import BelongsToOption, DeviceOption, EngineOption, JsonOption

SOME_FAILED = 1


def evaluate(
    model: Annotated[
        str, typer.Option("-n", "--model", help="A network of the zoo, a file, or bicubic.")
    ],
    data: Annotated[Path, typer.Option(help="Folder of pictures.")],
    protocol: Annotated[
        str | None, typer.Option(help="How to score, such as sr-y-x4; by default as fits.")
    ] = None,
    tile: Annotated[
        int | None, typer.Option(min=16, help="Restore larger pictures in tiles of this side.")
    ] = None,
    lpips: Annotated[Path | None, typer.Option(help="LPIPS weights: score that, too.")] = None,
    device: DeviceOption = None,
    engine: EngineOption = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad picture.")
    ] = False,
    belongs_to: BelongsToOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a network on a folder of pictures."""
    from scumble.evaluate import evaluate as score

    with _bar() as told:
        report = score(model, data, protocol, tile, device, strict, lpips, told, belongs_to, engine)
    found = json.dumps(report.to_json(), indent=2, allow_nan=False) if as_json else str(report)
    typer.echo(found)
    if report.failed:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal while pictures are scored; give what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not sys.stderr.isatty()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("scoring", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
