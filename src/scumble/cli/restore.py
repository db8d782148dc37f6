"""``scumble restore``: photos in, better photos out."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from scumble.cli import restore_options as options
from scumble.cli.options import BelongsToOption, EngineOption, JsonOption

if TYPE_CHECKING:
    from scumble.restore import Batch, Form, Plan, Restorer

SOME_FAILED = 1
STOPPED = 130  # as a shell reports a program that was stopped by Ctrl-C

HERE = Path("restored")


class RayWithoutAddress(TyperCommand):
    """Lets ``--ray`` stand alone, for the cluster that runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the address in that was left out."""
        for at, word in enumerate(args):
            if word == "--ray" and (at + 1 == len(args) or args[at + 1].startswith("-")):
                args = [*args[: at + 1], "auto", *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


def restore(
    photos: options.PhotosArgument = None,
    inputs: options.InputOption = None,
    output: options.OutputOption = HERE,
    model: options.ModelOption = None,
    scale: options.ScaleOption = None,
    recursive: options.RecursiveOption = False,
    form: options.FormatOption = "keep",
    quality: options.QualityOption = None,
    tile: options.TileOption = "auto",
    threads: options.ThreadsOption = None,
    engine: EngineOption = "auto",
    resume: options.ResumeOption = False,
    overwrite: options.OverwriteOption = False,
    strip_metadata: options.StripOption = False,
    keep_times: options.TimesOption = False,
    max_megapixels: options.MegapixelsOption = 100,
    dry_run: options.DryOption = False,
    ray: options.RayOption = None,
    belongs_to: BelongsToOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore photos: enlarge them with a trained network."""
    from scumble.restore import OVERWRITE, REFUSE, RESUME, Form, make_plan

    if resume and overwrite:
        raise typer.BadParameter("--resume keeps what is done, --overwrite does not; take one")
    wanted = Form(form, quality, strip_metadata, keep_times, max_megapixels)
    plan = make_plan([*(photos or []), *(inputs or [])], output, wanted, recursive)
    if dry_run:
        _tell_plan(plan, as_json)
        return
    restorer = _restorer(model, scale, belongs_to, engine, threads, _side(tile))
    existing = RESUME if resume else OVERWRITE if overwrite else REFUSE
    _run(restorer, plan, wanted, existing, ray, as_json)


def _side(tile: str) -> int | None:
    if tile == "auto":
        return None
    if not tile.isdecimal() or not 0 < len(tile) < 7:
        raise typer.BadParameter(f"a tile is auto or a side in pixels, such as 256, got {tile!r}")
    return int(tile)


def _restorer(
    model: str | None,
    scale: int | None,
    belongs_to: str | None,
    engine: str,
    threads: int | None,
    tile: int | None,
) -> "Restorer":
    """Return the network at work; by default that of the zoo which enlarges so much."""
    import scumble
    import scumble.zoo
    from scumble.errors import NetworkError
    from scumble.models import NetworkSpec
    from scumble.restore import DEFAULT, Restorer

    if model is None:
        model = DEFAULT if scale is None else f"{DEFAULT.rpartition('-x')[0]}-x{scale}"
        if model not in scumble.zoo.names():
            raise NetworkError(
                f"the zoo has no network for x{scale}, but {', '.join(scumble.zoo.names())}; "
                f"name a file with -n"
            )
    network = scumble.load(
        model, None if belongs_to is None else NetworkSpec.parse(belongs_to).build()
    )
    return Restorer(network, scale=scale, engine=engine, threads=threads, tile=tile)


def _run(
    restorer: "Restorer",
    plan: "Plan",
    form: "Form",
    existing: str,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Restore everything, show how far it is, and say what became of it."""
    from scumble.cli.restore_bar import Bar

    with Bar(plan.jobs, restorer.scale, quiet=as_json or not sys.stderr.isatty()) as bar:
        batch = restorer.batch(plan, form, existing, cluster, bar.inside)
        try:
            for result in batch:
                bar.past(result)
                if result.error is not None:
                    bar.say(f"failed: {result.error}")
        except KeyboardInterrupt:
            batch.close()
            bar.stop()
            again = "; the same command with --resume goes on" if plan.whole_folder else ""
            typer.echo(f"stopped after {len(batch.results)} of {len(plan.jobs)} files{again}")
            raise typer.Exit(STOPPED) from None
    summary = batch.summary()
    typer.echo(json.dumps(summary, indent=2) if as_json else _told(batch, plan))
    if summary["failed"]:
        raise typer.Exit(SOME_FAILED)


def _told(batch: "Batch", plan: "Plan") -> str:
    """Return the summary for people."""
    told = batch.summary()
    seconds = told["seconds"]
    lines = [f"restored {_files(told['done'])} in {_time(seconds)}"]
    if told["done"]:
        rate = told["megapixels"] / seconds if seconds else 0
        lines[0] += f": {told['megapixels']:.4g} megapixels, {rate:.3g} a second"
        where = plan.root if plan.whole_folder else plan.jobs[0].target
        lines[0] += f", in {where}"
    if told["skipped"]:
        lines.append(f"skipped, done already: {_files(told['skipped'])}")
    if told["failed"]:
        listed = f", listed in {plan.root / 'failed.jsonl'}" if plan.whole_folder else ""
        lines.append(f"failed: {_files(told['failed'])}{listed}")
    lines += _left_alone(plan)
    if not told["tiles_exact"]:
        lines.append(
            "this network looks at the whole picture: tiles of large ones differ a little from it"
        )
    return "\n".join(lines)


def _left_alone(plan: "Plan") -> list[str]:
    """Return what was seen and not touched."""
    lines = []
    if plan.ignored:
        lines.append(f"left alone, no pictures: {_files(plan.ignored)}")
    if plan.closed:
        folders = "1 folder" if plan.closed == 1 else f"{plan.closed} folders"
        lines.append(f"not looked into: {folders} inside; add -r for that")
    return lines


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _time(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{left:02} h"
    return f"{minutes}:{left:02} min" if minutes else f"{seconds:.1f} s"


def _tell_plan(plan: "Plan", as_json: bool) -> None:
    """Say what would be done."""
    if as_json:
        jobs = [
            {"source": str(job.source), "target": str(job.target), "error": job.failure}
            for job in plan.jobs
        ]
        typer.echo(json.dumps({"jobs": jobs, "ignored": plan.ignored}, indent=2))
        return
    for job in plan.jobs:
        if job.failure is None:
            typer.echo(f"{job.source} ({job.width}x{job.height}) -> {job.target}")
        else:
            typer.echo(f"would fail: {job.failure}")
    for line in _left_alone(plan):
        typer.echo(line)
