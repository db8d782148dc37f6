"""What a comparison found: cells, and the rows of its table."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from pydantic import Field

from scumble import paper
from scumble.errors import RecipeError
from scumble.paper import PaperRow
from scumble.recipe import Section, make_section

FILE, TABLE = "comparison.json", "comparison.md"
FORMAT = "scumble comparison 1"

DENSE = "dense"  # the method of a network that was not pruned

State = Literal["done", "failed", "working", "stopped", "waiting"]


class Place(Section):
    """Where a cell stands in the table."""

    network: str
    method: str  # as the registry calls it
    label: str  # as the table calls it
    budget: str
    setting: str = ""
    seed: int = 0
    m: int | None = None


class CellResult(Section):
    """What is known of a cell."""

    name: str
    place: Place
    state: State
    told: str = ""  # why it failed, who is at work, how far it came
    folder: str | None = None  # of its run, inside the comparison's
    file: str | None = None  # the network: a path inside the comparison's folder, or of the zoo
    macs: dict[str, int] = Field(default={})  # by convention, on 320x180
    parameters: int | None = None
    scores: dict[str, dict[str, float | None]] = Field(default={})  # mean, by data set and metric
    pictures: dict[str, dict[str, float | None]] = Field(default={})  # PSNR, by set and picture
    warnings: tuple[str, ...] = ()  # pictures that could not be scored
    seconds: float | None = None  # of training
    starts: tuple[dict[str, Any], ...] = ()  # when and on what it ran


class Comparison(Section):
    """Everything that a comparison has found so far."""

    format: Literal["scumble comparison 1"] = FORMAT
    title: str
    sources: dict[str, Any]  # the grid, or the recipes
    data: tuple[str, ...]  # names of the sets of pictures
    folders: dict[str, str]  # where they lie
    protocols: dict[str, str]
    cells: tuple[CellResult, ...]
    date: str
    command: str
    versions: dict[str, str | None]

    @property
    def failed(self) -> list[CellResult]:
        """Return the cells that failed."""
        return [cell for cell in self.cells if cell.state == "failed"]

    @property
    def rows(self) -> "list[Row]":
        """Return the rows of the table: cells that differ by their seed alone are one."""
        grouped: dict[tuple[str, ...], list[CellResult]] = {}
        for cell in self.cells:
            p = cell.place
            grouped.setdefault((p.network, p.label, p.budget, p.setting, str(p.m)), []).append(cell)
        return [Row(tuple(cells)) for cells in grouped.values()]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data, with the rows of the table."""
        return {**self.model_dump(mode="json"), "rows": [row.to_json() for row in self.rows]}

    @classmethod
    def read(cls, path: Path) -> "Comparison":
        """Return the comparison in a file."""
        try:
            content = json.loads(path.read_text())
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise RecipeError(f"its format is not {FORMAT!r}")
            content.pop("rows", None)
            return make_section(cls, content)
        except OSError as error:
            raise RecipeError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecipeError) as error:
            raise RecipeError(f"{path} is not a comparison: {error}") from error


@dataclass(frozen=True)
class Figure:
    """A score over the seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Return the standard deviation of the sample; None for a single seed."""
        return stdev(self.values) if len(self.values) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values)}


@dataclass(frozen=True)
class Row:
    """Cells that differ by their seed alone."""

    cells: tuple[CellResult, ...]

    @property
    def place(self) -> Place:
        """Return the place of the first cell."""
        return self.cells[0].place

    @property
    def done(self) -> list[CellResult]:
        """Return the cells that have all their scores."""
        return [cell for cell in self.cells if cell.state == "done"]

    @property
    def gmacs(self) -> float | None:
        """Return the GMACs as the paper counts them, in the mean."""
        found = [cell.macs["paper"] for cell in self.done]
        return fmean(found) / 1e9 if found else None

    @property
    def parameters(self) -> int | None:
        """Return the parameters, in the mean."""
        found = [cell.parameters for cell in self.done if cell.parameters is not None]
        return round(fmean(found)) if found else None

    @property
    def paper(self) -> PaperRow | None:
        """Return the paper's row of the same, unless the label says that it is something else."""
        place = self.place
        if place.label != place.method:
            return None
        return paper.find(place.network, place.method, place.budget, place.m, place.setting)

    def figure(self, data: str, metric: str = "psnr") -> Figure | None:
        """Return a score over the seeds."""
        found = (cell.scores.get(data, {}).get(metric) for cell in self.done)
        values = tuple(value for value in found if value is not None)
        return Figure(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        theirs = self.paper
        metrics = {
            data: {metric: figure.to_json() for metric, figure in self._figures(data)}
            for data in dict.fromkeys(data for cell in self.done for data in cell.scores)
        }
        return {
            **self.place.model_dump(exclude={"seed"}),
            "seeds": [cell.place.seed for cell in self.done],
            "missing": {cell.name: cell.told for cell in self.cells if cell.state != "done"},
            "gmacs": self.gmacs,
            "parameters": self.parameters,
            "scores": metrics,
            "paper": None
            if theirs is None
            else {
                "table": theirs.table,
                "gmacs": theirs.gmacs,
                "parameters": theirs.parameters,
                "scores": {data: dict(scores) for data, scores in theirs.scores.items()},
            },
        }

    def _figures(self, data: str) -> Iterator[tuple[str, Figure]]:
        for metric in dict.fromkeys(m for cell in self.done for m in cell.scores.get(data, {})):
            figure = self.figure(data, metric)
            if figure is not None:
                yield metric, figure


def best_rows(rows: Iterable[Row], data: str, metric: str) -> list[Row]:
    """Return the row that is best among those of one network and budget, for each of these."""
    sign = -1 if metric == "lpips" else 1
    groups: dict[tuple[str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        figure = row.figure(data, metric)
        if figure is not None and row.place.method != DENSE:
            key = row.place.network, row.place.budget
            groups.setdefault(key, []).append((sign * figure.mean, row))
    return [max(group, key=lambda one: one[0])[1] for group in groups.values() if len(group) > 1]


def metrics_of(rows: Sequence[Row]) -> list[str]:
    """Return the metrics that rows have, in the order of tables."""
    known: Mapping[str, None] = {
        metric: None
        for row in rows
        for cell in row.done
        for scores in cell.scores.values()
        for metric in scores
    }
    return list(known)
