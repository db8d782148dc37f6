"""``scumble recipe``: the recipes that come with the package, and the check of your own."""

import json
from typing import Annotated

import typer

from scumble.cli.options import ChangesOption

recipe = typer.Typer(no_args_is_help=True, help="List, show and check recipes.")


@recipe.command("list")
def list_() -> None:
    """Print the names of our recipes."""
    from scumble.recipe import recipe_names, recipe_text

    names = recipe_names()
    width = max(map(len, names))
    for name in names:
        about = recipe_text(name).partition("\n")[0].removeprefix("# ")
        typer.echo(f"{name:<{width}}  {about}")


@recipe.command()
def show(name: Annotated[str, typer.Argument(help="The name of one of our recipes.")]) -> None:
    """Print a recipe of ours, to start your own from."""
    from scumble.recipe import recipe_text

    typer.echo(recipe_text(name), nl=False)


@recipe.command()
def schema() -> None:
    """Print the JSON schema of a recipe."""
    from scumble.recipe import recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2))


@recipe.command()
def check(
    source: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe file or name.")],
    changes: ChangesOption = [],  # noqa: B006 (typer's own way to say: none given)
) -> None:
    """Check a recipe, and print it with every default written out."""
    from scumble.recipe import read_recipe
    from scumble.training.prepare import check_recipe

    checked = read_recipe(source, changes)
    check_recipe(checked)
    typer.echo(checked.to_yaml(), nl=False)
