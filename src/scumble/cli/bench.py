"""``scumble bench``: how fast networks run on this machine, by engine."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli.options import parse_size
from scumble.errors import EngineError

if TYPE_CHECKING:
    from scumble.bench import Case, Report

TABLE_WIDTH = 120  # where the output is not a terminal


def bench(
    models: Annotated[
        list[str],
        typer.Option("-n", "--model", help="A network such as carn-x4, or a file; may repeat."),
    ],
    size: Annotated[str, typer.Option(help="Width x height of the input.")] = "320x180",
    threads: Annotated[
        str | None, typer.Option(help="How many threads, such as 1,2; by default all cores.")
    ] = None,
    engines: Annotated[
        str, typer.Option(help="Of scumble, or torch, onnxruntime, openvino.")
    ] = "cpu,torch,onnxruntime,openvino",
    pattern: Annotated[
        str | None,
        typer.Option(help="Prune copies by magnitude, such as 2:32,8:32,dense."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 9,
    belongs_to: Annotated[
        str | None,
        typer.Option("--network", help="The network that a state dict of others belongs to."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how scumble's engines run them; time nothing.")
    ] = False,
) -> None:
    """Time networks, every engine at its best, taking turns."""
    from scumble.bench import bench as measure
    from scumble.bench import check_engines
    from scumble.machine import cores

    height_width, names = parse_size(size), _words(engines)
    counts = [cores()] if threads is None else _numbers(threads)
    check_engines(names, counts)
    if json_file is not None and (json_file.is_dir() or not json_file.parent.is_dir()):
        raise EngineError(f"--json needs a file in a folder that is there, got {json_file}")
    cases = _cases(models, pattern, belongs_to)
    if explain:
        typer.echo(_explain(cases, names, counts[0]))
        return
    with _bar() as told:
        report = measure(cases, names, counts, height_width, rounds, told)
    _show(report, json_file)


def _words(text: str) -> list[str]:
    """Return what stands between commas, each once."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise typer.BadParameter(f"a list has at least one word, got {text!r}")
    return found


def _numbers(text: str) -> list[int]:
    words = _words(text)
    if not all(word.isdecimal() and len(word) < 6 for word in words):
        raise typer.BadParameter(f"threads are whole numbers, such as 1,2, got {text!r}")
    return [int(word) for word in words]


def _cases(models: list[str], pattern: str | None, belongs_to: str | None) -> "list[Case]":
    """Return each network in each pattern; as it is without one."""
    from scumble.bench import case_of
    from scumble.cli.networks import is_file, open_trained

    cases: list[Case] = []
    for model in dict.fromkeys(models):
        network = open_trained(model, belongs_to)
        name = Path(model).name if is_file(model) else model
        wanted = [None] if pattern is None else _words(pattern)
        cases += [case_of(name, network, one) for one in wanted]
    return cases


def _explain(cases: "list[Case]", engines: list[str], threads: int) -> str:
    """Return how the engines of scumble run each network."""
    from scumble.engines import ENGINES, compile

    ours = [engine for engine in engines if engine in ENGINES]
    if not ours:
        raise EngineError(
            f"--explain needs an engine of scumble ({', '.join(ENGINES)}), got {', '.join(engines)}"
        )
    parts = [
        f"{case}, {engine}:\n{compile(case.module, engine, threads).explain()}"
        for case in cases
        for engine in ours
    ]
    return "\n\n".join(parts)


def _show(report: "Report", json_file: Path | None) -> None:
    """Print the tables, and write the file."""
    from rich.console import Console

    from scumble.bench.report import LEGEND
    from scumble.files import atomic_write

    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
    for table in report.tables():
        console.print(table)
    console.print(LEGEND, highlight=False)
    warning = report.warning()
    if warning:
        typer.echo(f"scumble: {warning}", err=True)
    if json_file is not None:
        with atomic_write(json_file) as file:
            file.write((json.dumps(report.to_json(), indent=2) + "\n").encode())


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on a terminal while contestants take turns; give what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not sys.stderr.isatty()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(
            task, completed=done, total=total, description=what
        )
