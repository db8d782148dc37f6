"""A run in the terminal: a bar while it goes on, a summary when it ends."""

import signal
import sys
from types import FrameType

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scumble.training.run import BEST, FINAL, Event, TrainingRun

# As a shell reports a program that was stopped by Ctrl-C.
STOPPED = 130
SOME_FAILED = 1


def watch(run: TrainingRun) -> None:
    """Run to the end and show it; Ctrl-C saves and ends it, so that it can go on later."""
    show = run.team.rank == 0
    if run.done and (run.folder / FINAL).exists():
        if show:
            typer.echo(f"{run.folder} is done: {run.folder / FINAL}")
        return
    if run.progress.step and show and not run.done:
        typer.echo(f"going on after step {run.progress.step}")
    _stop_gently(run)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    last: Event | None = None
    with Progress(*columns, console=console, disable=not (show and sys.stderr.isatty())) as bar:
        task = bar.add_task("starting", total=run.recipe.train.steps, completed=run.progress.step)
        psnr: float | None = None
        for last in run.events():
            psnr = last.psnr if last.psnr is not None else psnr
            bar.update(task, completed=last.step, description=describe(last, psnr))
    if show:
        typer.echo(_summary(run, last))
    if not run.done:
        raise typer.Exit(STOPPED)
    # The others do not know of all, and must not end with an error while the first is at work.
    if run.prepared.left_out and show:
        typer.echo(_left_out(len(run.prepared.left_out)), err=True)
        raise typer.Exit(SOME_FAILED)


def describe(event: Event, psnr: float | None) -> str:
    """Return how a run stands, in a few words."""
    words = [f"loss {event.loss:.4f}"]
    if psnr is not None:
        words.append(f"PSNR {psnr:.2f} dB")
    if event.gmacs is not None:
        words.append(f"{event.gmacs:.2f} GMACs{'' if event.reached else ' and falling'}")
    return "  ".join(words)


def _summary(run: TrainingRun, last: Event | None) -> str:
    if not run.done:
        return f"stopped after step {run.progress.step}; the same command goes on from there"
    told = f"{run.folder / FINAL}: {describe(last, last.psnr)}" if last else f"{run.folder / FINAL}"
    best = run.progress.best
    return told if best is None else f"{told}\n{run.folder / BEST}: PSNR {best:.2f} dB"


def _left_out(count: int) -> str:
    return "1 photo was left out" if count == 1 else f"{count} photos were left out"


def _stop_gently(run: TrainingRun) -> None:
    """Let a first Ctrl-C or kill end the run after its step; a second one ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        run.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
