"""From a grid, or from recipes, to the cells: one training run each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from scumble.compare.grid import (
    Grid,
    NetworkEntry,
    ScoreEntry,
    SettingEntry,
    base_content,
    is_grid,
    make_grid,
    score_entries,
    source_content,
)
from scumble.comparison import DENSE, Place
from scumble.core.budget import Budget
from scumble.errors import RecipeError
from scumble.methods import SLS
from scumble.recipe import Recipe, change_recipe, make_section

LONGEST_NAME = 120


@dataclass(frozen=True)
class Cell:
    """One training run of a comparison, or a dense network that is only scored."""

    name: str  # of its folder
    place: Place  # in the table
    recipe: Recipe | None  # None for a dense network, or where the recipe makes no sense
    start: str | None = None  # a dense network: a file, or one of the zoo
    refusal: str | None = None  # why it cannot be
    pressure_of: str | None = None  # the cell whose last pressure this one begins with


@dataclass(frozen=True)
class Plan:
    """What a comparison is going to do."""

    title: str
    cells: tuple[Cell, ...]
    score: tuple[ScoreEntry, ...]
    best: bool  # score the best network by validation, not the last
    sources: Mapping[str, Any]  # the grid, or the recipes, as plain data


def make_plan(
    sources: Sequence[str], changes: Sequence[str] = (), data: Sequence[str] = ()
) -> Plan:
    """Return the plan of a grid, or of recipes.

    Args:
        sources: one grid or some recipes, each a file or one of ours by name.
        changes: ``section.key=value`` changes to the recipe that all cells begin with.
        data: folders of pictures to score on, instead of the grid's.
    """
    contents = {source: source_content(source) for source in sources}
    grids = [source for source, content in contents.items() if is_grid(content)]
    if grids and len(contents) > 1:
        raise RecipeError(f"compare takes one grid or some recipes, got {', '.join(sources)}")
    if grids:
        (source,) = grids
        plan = _plan_of_grid(make_grid(contents[source], source), source, changes, data)
    else:
        plan = _plan_of_recipes(contents, changes, data)
    _check(plan)
    return plan


def _plan_of_grid(grid: Grid, source: str, changes: Sequence[str], data: Sequence[str]) -> Plan:
    base = base_content(grid, source)
    return Plan(
        title=Path(source).stem,
        cells=tuple(_cells(grid, base, changes)),
        score=score_entries(data) if data else grid.score,
        best=grid.best,
        sources={source: grid.model_dump(mode="json"), "changes": list(changes)},
    )


def _cells(grid: Grid, base: dict[str, Any], changes: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells in the order of the table."""
    named, prune, train = (_section(base, name) for name in ("network", "prune", "train"))
    # What the base says is checked as if the grid had said it.
    own = make_section(
        Grid,
        {
            "base": {},
            "networks": [named.get("name", "carn-x4")],
            "methods": [prune.get("method", "sls")],
            "budgets": [prune.get("budget", "1/2")],
            "seeds": [train.get("seed", 0)],
        },
    )
    networks, methods = grid.networks or own.networks, grid.methods or own.methods
    budgets, seeds = grid.budgets or own.budgets, grid.seeds or own.seeds
    settings = grid.settings or (SettingEntry(name=""),)
    _check_pressures(settings)
    for network in networks:
        begun = _beginning(base, network)
        shared = (*grid.set, *changes, *network.set)
        if grid.dense:
            yield from _dense_cell(network, begun, shared)
        for budget, method, setting, seed in product(budgets, methods, settings, seeds):
            place = Place(
                network=network.name,
                method=method.name,
                label=method.label or method.name,
                budget=str(budget.budget),
                setting=setting.name,
                seed=seed,
            )
            pruned = {**prune, "method": method.name, "budget": budget.budget}
            content = {**begun, "prune": pruned}
            changed = (*method.set, *budget.set, *setting.set, f"train.seed={seed}")
            cell = _cell(place, content, (*shared, *changed))
            if setting.pressure_of is not None:
                other = place.model_copy(update={"setting": setting.pressure_of})
                cell = _with_pressure_of(cell, _name_of(other))
            yield cell


def _section(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section of a recipe in plain data, empty if there is none."""
    section = content.get(name) or {}
    if not isinstance(section, dict):
        raise RecipeError(f"{name} needs to be a section of keys, got {section!r}")
    return section


def _beginning(base: Mapping[str, Any], network: NetworkEntry) -> dict[str, Any]:
    """Return the base with this network in it."""
    section: dict[str, Any] = dict(_section(base, "network"))
    if section.get("name", "carn-x4") != network.name:
        section.clear()
        section["start"] = network.name  # of the zoo
    section["name"] = network.name
    if "start" in network.model_fields_set:
        section["start"] = network.start
    if network.arguments:
        section["arguments"] = network.arguments
    return {**base, "network": section}


def _check_pressures(settings: Sequence[SettingEntry]) -> None:
    """Refuse a setting that takes its pressure from one that does not find its own."""
    own = [setting.name for setting in settings if setting.pressure_of is None]
    for setting in settings:
        if setting.pressure_of is not None and setting.pressure_of not in own:
            raise RecipeError(
                f"pressure_of of the setting {setting.name!r} needs another setting, one without "
                f"pressure_of, got {setting.pressure_of!r}; known: {', '.join(map(repr, own))}"
            )


def _with_pressure_of(cell: Cell, other: str) -> Cell:
    """Return a cell that begins with the last pressure of another, if its method has any."""
    if cell.place.method != SLS.name:
        refusal = f"pressure_of is for sls, which has a pressure, not for {cell.place.method}"
        return replace(cell, recipe=None, refusal=cell.refusal or refusal)
    return replace(cell, pressure_of=other)


def _name_of(place: Place) -> str:
    return _folder_name(
        place.network, place.label, place.budget, place.setting, f"seed{place.seed}"
    )


def _cell(place: Place, content: dict[str, Any], changes: Sequence[str]) -> Cell:
    name = _name_of(place)
    try:
        recipe = change_recipe(content, changes)
    except RecipeError as error:
        return Cell(name, place, None, refusal=str(error))
    known = {"network": recipe.network.name, "m": recipe.prune.m if recipe.prune else None}
    return Cell(name, place.model_copy(update=known), recipe)


def _dense_cell(
    network: NetworkEntry, content: dict[str, Any], changes: Sequence[str]
) -> Iterator[Cell]:
    """Yield the network that the others start from, if they start from one."""
    try:
        start = change_recipe({**content, "prune": None}, _of_network(changes)).network.start
    except RecipeError:
        return  # the cells themselves say it
    if start is not None:
        place = Place(network=network.name, method=DENSE, label=DENSE, budget="1")
        yield Cell(_folder_name(network.name, DENSE), place, None, start=start)


def _of_network(changes: Sequence[str]) -> list[str]:
    return [change for change in changes if change.strip().startswith(("network.", "data."))]


def _plan_of_recipes(
    contents: Mapping[str, dict[str, Any]], changes: Sequence[str], data: Sequence[str]
) -> Plan:
    cells = tuple(
        _cell_of_recipe(source, content, changes, several=len(contents) > 1)
        for source, content in contents.items()
    )
    return Plan(
        title=" ".join(Path(source).stem for source in contents),
        cells=cells,
        score=score_entries(data),
        best=False,
        sources={**contents, "changes": list(changes)},
    )


def _cell_of_recipe(
    source: str, content: dict[str, Any], changes: Sequence[str], several: bool
) -> Cell:
    setting = Path(source).stem if several else ""
    try:
        recipe = change_recipe(content, changes)
    except RecipeError as error:
        place = Place(network="?", method="?", label="?", budget="?", setting=Path(source).stem)
        return Cell(_folder_name(place.setting), place, None, refusal=str(error))
    prune = recipe.prune
    place = Place(
        network=recipe.network.name,
        method=prune.method if prune else DENSE,
        label=prune.method if prune else DENSE,
        budget=str(Budget.parse(prune.budget)) if prune else "1",
        setting=setting,
        seed=recipe.train.seed,
        m=prune.m if prune else None,
    )
    return Cell(_folder_name(Path(source).stem, f"seed{place.seed}"), place, recipe)


def _folder_name(*words: str) -> str:
    plain = (re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-.") for word in words)
    return "_".join(word for word in plain if word)[:LONGEST_NAME]


def _check(plan: Plan) -> None:
    """Refuse a comparison in which nothing can be done, or two cells are one."""
    labels = [entry.label for entry in plan.score]
    for label in labels:
        if labels.count(label) > 1:
            raise RecipeError(f"two sets of pictures are called {label}; give one another name")
    names = [cell.name for cell in plan.cells]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(
                f"two cells are called {name}; give their methods or settings different labels"
            )
    if not any(cell.recipe for cell in plan.cells):
        refusals = [cell.refusal for cell in plan.cells if cell.refusal]
        raise RecipeError(f"no cell can be made: {refusals[0] if refusals else 'there is none'}")
