"""``scumble compare``: many training runs side by side, and one table of them."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli.options import ChangesOption, DeviceOption, JsonOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scumble.compare import Plan, Told, Work
    from scumble.comparison import Comparison

STOPPED = 130  # as a shell reports a program that was stopped by Ctrl-C
SOME_FAILED = 1
TABLE_WIDTH = 160  # where the output is not a terminal


def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="GRID|RECIPE...", help="A grid, or recipes: files, or names."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of the comparison.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Folder of pictures to score on, instead of the grid's; may repeat."),
    ] = None,
    changes: ChangesOption = [],  # noqa: B006 (typer's own way to say: none given)
    device: DeviceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the cells, and what is left to do.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the grids of ours.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run or resume a grid of training runs, score all, and make one table.

    The same command on another machine with the same folder takes other cells of the grid.
    """
    if list_:
        _print_grids()
        return
    if not sources or output is None:
        needed = "-o FOLDER" if sources else "a grid or recipes"
        raise typer.BadParameter(f"compare needs {needed}; scumble compare --list names our grids")
    from scumble.compare import Work, make_plan

    plan = make_plan(sources, changes, data or [])
    if dry_run:
        _print_plan(plan, output, as_json)
        return
    work = Work(plan, output, device)
    with _stopping_gently(work), _progress(work):
        found = work.all()
    _show(found, as_json, output)
    if work.stopping:
        raise typer.Exit(STOPPED)
    if found.failed or any(cell.warnings for cell in found.cells):
        raise typer.Exit(SOME_FAILED)


def _print_grids() -> None:
    from scumble.compare.grid import grid_names, grid_text

    names = grid_names()
    width = max(map(len, names))
    for name in names:
        about = grid_text(name).partition("\n")[0].removeprefix("# ")
        typer.echo(f"{name:<{width}}  {about}")


def _show(found: "Comparison", as_json: bool, output: Path) -> None:
    from scumble.comparison import FILE, TABLE, make_table, notes

    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    from rich.text import Text

    table = make_table(found)
    shown = _table(table.head, table.words)
    for line in table.lines:
        if line.begins and shown.row_count:
            shown.add_section()
        shown.add_row(*(Text(str(e), style="bold" if e.best else "") for e in line.entries))
    _console().print(shown)
    for note in notes(found, table):
        typer.echo(f"  {note}")
    typer.echo(f"  {output / TABLE}, {output / FILE}")


def _print_plan(plan: "Plan", output: Path, as_json: bool) -> None:
    """List the cells with their state, and what they are going to cost."""
    from scumble.compare.cell_folder import folders_of
    from scumble.compare.estimate import estimates, refusal

    folders = folders_of(plan, output)
    costs = estimates(folders)
    cells = []
    for folder in folders:
        result, cost, name = folder.result(), costs.get(folder.cell.name), folder.cell.name
        reason = refusal(folder)
        cells.append(
            {
                "name": name,
                "state": "failed" if reason else result.state,
                "told": reason or result.told,
                "steps": cost.steps if cost else 0,
                "petamacs": cost.petamacs if cost else 0.0,
                "seconds": cost.seconds if cost else None,
            }
        )
    if as_json:
        typer.echo(json.dumps({"title": plan.title, "cells": cells}, indent=2))
        return
    from rich.text import Text

    shown = _table(("cell", "state", "steps left", "PMACs left", "time left", ""), 2)
    for cell in [*cells, _total(cells)]:
        words = (
            cell["name"],
            cell["state"],
            f"{cell['steps']:,}",
            f"{cell['petamacs']:,.3g}",
            _time(cell["seconds"]),
            cell["told"],
        )
        shown.add_row(*map(Text, words), end_section=cell is cells[-1])
    _console().print(shown)


def _total(cells: list[dict]) -> dict:
    times = [cell["seconds"] for cell in cells if cell["seconds"] is not None]
    return {
        "name": f"{len(cells)} cells",
        "state": f"{sum(cell['state'] == 'done' for cell in cells)} done",
        "steps": sum(cell["steps"] for cell in cells),
        "petamacs": sum(cell["petamacs"] for cell in cells),
        "seconds": sum(times) if times else None,
        "told": "" if times else "the time is known once a cell has run",
    }


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes else f"{seconds:.0f} s"


def _table(head: "tuple[str, ...]", words: int) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(head):
        is_words = number < words or not name  # remarks have no name, and may be long
        table.add_column(name, justify="left" if is_words else "right", no_wrap=bool(name))
    return table


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)


@contextmanager
def _progress(work: "Work") -> Iterator[None]:
    """Show a bar on a terminal while a cell is done, and a line when it ends."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("starting", total=None)

        def told(what: "Told") -> None:
            if what.of:
                about = f"{what.cell}: {what.doing}{_stands(what)}"
                bar.update(task, description=about, completed=what.now, total=what.of)
            else:
                bar.console.print(f"{what.cell}: {what.doing}", markup=False, highlight=False)

        work.told = told
        yield


def _stands(what: "Told") -> str:
    event = what.event
    if event is None:
        return ""
    cost = "" if event.gmacs is None else f", {event.gmacs:.2f} GMACs"
    return f", loss {event.loss:.4f}{cost}"


@contextmanager
def _stopping_gently(work: "Work") -> Iterator[None]:
    """Let a first Ctrl-C or kill save and end what is being done; a second one ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        work.stop()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
