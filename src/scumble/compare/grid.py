"""A grid is data: which networks, methods, budgets, settings and seeds stand side by side."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from scumble.core.budget import Budget
from scumble.errors import BudgetError, RecipeError
from scumble.recipe import (
    Section,
    make_section,
    names_file,
    parse_sections,
    read_yaml_file,
    recipe_content,
    recipe_names,
)
from scumble.registry import unknown_name


def _named(key: str) -> BeforeValidator:
    """Let an entry be written as its name alone."""
    return BeforeValidator(lambda given: given if isinstance(given, Mapping) else {key: given})


def _readable_budget(given: str | float) -> str:
    try:
        return str(Budget.parse(given))
    except BudgetError as error:
        raise ValueError(str(error)) from error


Changes = Annotated[tuple[str, ...], Field(description="changes to the recipe: train.steps=1000")]


class NetworkEntry(Section):
    """A network, and where its cells start from."""

    name: str = Field(description="network and scale, such as carn-x4")
    start: str | None = Field(
        default=None, description="weights to start from; if none, the base's or the zoo's"
    )
    arguments: dict[str, int] = Field(default={}, description="other arguments of the network")
    set: Changes = ()


class MethodEntry(Section):
    """A method, by its own name in the table or by another."""

    name: str = Field(description="sls, oneshot, ...")
    label: str | None = Field(default=None, description="what the table calls it")
    set: Changes = ()


class BudgetEntry(Section):
    """A budget."""

    budget: Annotated[str | float, AfterValidator(_readable_budget)]
    set: Changes = ()


class SettingEntry(Section):
    """Changes to the recipe under one name: a row of an ablation."""

    name: str = Field(description="what the table calls it; nothing for the recipe as it is")
    pressure_of: str | None = Field(
        default=None, description="begin with the last pressure of this setting's cells"
    )
    set: Changes = ()


class ScoreEntry(Section):
    """Pictures to score on."""

    data: str = Field(description="folder of pictures")
    name: str | None = Field(default=None, description="what the table calls it; else the folder")
    protocol: str | None = Field(default=None, description="how to score; if none, as fits")

    @property
    def label(self) -> str:
        """Return what the table calls the pictures."""
        return self.name or Path(self.data).resolve().name


class Grid(Section):
    """Every combination of the axes is a cell: one training run, scored."""

    base: str | dict[str, Any] = Field(description="a recipe: a file, one of ours, or its sections")
    set: Changes = ()
    networks: tuple[Annotated[NetworkEntry, _named("name")], ...] = Field(
        default=(), description="if none, the base's"
    )
    methods: tuple[Annotated[MethodEntry, _named("name")], ...] = Field(
        default=(), description="if none, the base's"
    )
    budgets: tuple[Annotated[BudgetEntry, _named("budget")], ...] = Field(
        default=(), description="if none, the base's"
    )
    settings: tuple[Annotated[SettingEntry, _named("name")], ...] = ()
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="if none, the base's"
    )
    score: tuple[Annotated[ScoreEntry, _named("data")], ...] = Field(
        default=(), description="folders of pictures to score on"
    )
    best: bool = Field(default=False, description="score the best by validation, not the last")
    dense: bool = Field(default=True, description="score the networks that cells start from, too")


def grid_names() -> list[str]:
    """Return the names of the grids that come with the package."""
    folder = files("scumble.compare") / "grids"
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def grid_text(name: str) -> str:
    """Return a grid of ours as it is written."""
    if name not in grid_names():
        raise unknown_name("grid or recipe", name, [*grid_names(), *recipe_names()])
    return (files("scumble.compare") / "grids" / f"{name}.yaml").read_text()


def source_content(source: str) -> dict[str, Any]:
    """Return what a grid or a recipe says, from a file or by the name of one of ours."""
    path = Path(source)
    if names_file(path):
        return parse_sections(read_yaml_file(path, "grid or recipe"), source, "grid or recipe")
    if source in recipe_names():
        return recipe_content(source)
    return parse_sections(grid_text(source), source, "grid or recipe")


def is_grid(content: Mapping[str, Any]) -> bool:
    """Return whether a file that holds this is meant as a grid: a recipe's parts are others."""
    return bool(content.keys() & (Grid.model_fields.keys() - {"set"}))


def make_grid(content: Mapping[str, Any], source: str) -> Grid:
    """Return the grid in plain data, or say which key or value is wrong."""
    try:
        return make_section(Grid, content)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from error


def base_content(grid: Grid, source: str) -> dict[str, Any]:
    """Return the recipe that every cell begins with; a file is looked for beside the grid's."""
    if isinstance(grid.base, dict):
        return grid.base
    beside = Path(source).parent / grid.base
    return recipe_content(beside if beside.is_file() else grid.base)


def score_entries(folders: Sequence[str]) -> tuple[ScoreEntry, ...]:
    """Return folders of pictures as a grid has them."""
    return tuple(ScoreEntry(data=folder) for folder in folders)
