"""The bar of ``scumble restore``: files, megapixels a second, time left."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from scumble.restore import Job, Result


class Bar:
    """Shows on a terminal how far a batch is; else it only passes on what is said."""

    def __init__(self, jobs: "Sequence[Job]", scale: int, quiet: bool) -> None:
        self._count, self._made, self._files = len(jobs), scale**2 / 1e6, 0
        self._done: dict[Path, int] = {}  # pixels of each picture so far
        self._shown = self._worked = 0  # pixels in all, and those of them that took work
        self._start = time.perf_counter()
        columns = (
            TextColumn("{task.fields[files]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.description}", markup=False),
        )
        console = Console(file=sys.stderr)
        self._bar = Progress(*columns, console=console, transient=True, disable=quiet)
        self._quiet = quiet
        total = sum(job.pixels for job in jobs if job.failure is None)
        self._task = self._bar.add_task("", total=total or None, files=self._told(), rate="")

    def inside(self, job: "Job", done: int) -> None:
        """Show how many pixels of a picture are done."""
        self._worked += self._move(job.source, done)
        rate = self._worked * self._made / (time.perf_counter() - self._start)
        told = f"{rate:.2f} MP/s"
        self._bar.update(self._task, completed=self._shown, description=job.source.name, rate=told)

    def past(self, result: "Result") -> None:
        """Show that a picture is through."""
        self._files += 1
        if result.error is None:
            self._move(result.source, result.pixels)
        self._bar.update(self._task, completed=self._shown, files=self._told())

    def _move(self, source: Path, done: int) -> int:
        """Return how many pixels further a picture is."""
        further = done - self._done.get(source, 0)
        self._done[source] = done
        self._shown += further
        return further

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            typer.echo(line, err=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def _told(self) -> str:
        return f"{self._files}/{self._count} files"
