"""``scumble report``: one page about comparisons, runs and networks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from scumble.cli.options import DeviceOption

SOME_MISSING = 1


def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="COMPARISON|RUN|FILE...", help="Folders of comparisons or runs; networks."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        list[str] | None,
        typer.Option(help="Folder of pictures to score runs and files on; may repeat."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    device: DeviceOption = None,
) -> None:
    """Write one self-contained page: trade-off, table, crops, layers, progress, recipe."""
    from scumble.report import write_report

    with _spinner() as told:
        missing = write_report(sources, output, data or [], title, device, told)
    typer.echo(str(output))
    for fault in missing:
        typer.echo(f"scumble: {fault}", err=True)
    if missing:
        raise typer.Exit(SOME_MISSING)


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what goes on; give what changes it."""
    from rich.console import Console

    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console.status("reading") as status:
        yield lambda what: status.update(what)
