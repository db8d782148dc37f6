"""The command ``scumble``."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scumble.cli.bench import bench
from scumble.cli.compare import compare
from scumble.cli.engines import engines
from scumble.cli.evaluate import evaluate
from scumble.cli.export import export
from scumble.cli.inspect import inspect
from scumble.cli.prune import prune
from scumble.cli.recipe import recipe
from scumble.cli.report import report
from scumble.cli.restore import RayWithoutAddress, restore
from scumble.cli.train import train
from scumble.cli.zoo import zoo
from scumble.errors import ScumbleError
from scumble.version import __version__

WRONG_USE = 2


class OneSentenceErrors(TyperGroup):
    """Says what was wrong in one sentence; the traceback is for ``--debug``."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ScumbleError as error:
            if ctx.params["debug"]:
                raise
            typer.echo(f"scumble: {error}", err=True)
            raise typer.Exit(WRONG_USE) from error


app = typer.Typer(
    cls=OneSentenceErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(inspect)
app.command()(train)
app.command()(prune)
app.command()(evaluate)
app.command()(compare)
app.command()(report)
app.command(cls=RayWithoutAddress)(restore)
app.command()(bench)
app.command()(engines)
app.command()(export)
app.command()(zoo)
app.add_typer(recipe, name="recipe")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def scumble(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Make image-restoration networks small and fast."""


def main() -> None:
    """Run the command line."""
    app()
