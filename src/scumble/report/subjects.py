"""What a report is about: cells, each with what its folder and its network say."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import scumble.zoo
from scumble.checkpoint import load, read_info
from scumble.checkpoint_info import CheckpointInfo
from scumble.comparison import DENSE, FILE, CellResult, Comparison, Place
from scumble.core.budget import Budget
from scumble.core.cost import LayerCost
from scumble.errors import BudgetError, ComparisonError, ScumbleError
from scumble.inspection import inspect
from scumble.models import spec_of
from scumble.run_folder import BEST, FINAL, RECIPE, read_log, read_starts


@dataclass(frozen=True)
class Layer:
    """A layer of a pruned network, beside the dense one."""

    name: str
    dense_macs: int
    macs: int
    n: int | None  # kept of a group; None for a layer without a pattern
    m: int | None


@dataclass(frozen=True)
class Subject:
    """A cell, and where its files are; what cannot be read is simply not there."""

    cell: CellResult
    network: str | None  # a file, or a network of the zoo
    folder: Path | None  # of its run
    source: str = ""  # where it was found, as the caller wrote it
    faults: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Return its place in the table."""
        return self.cell.place

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """Return the events of its run."""
        try:
            return [] if self.folder is None else read_log(self.folder)
        except OSError:
            return []

    @cached_property
    def recipe(self) -> str | None:
        """Return the recipe of its run, as it stands in its folder."""
        try:
            return None if self.folder is None else (self.folder / RECIPE).read_text()
        except (OSError, UnicodeDecodeError):
            return None

    @cached_property
    def layers(self) -> list[Layer]:
        """Return its layers, the dearest before pruning last."""
        if self.network is None or self.place.method == DENSE:
            return []
        try:
            network = load(self.network)
            layers = inspect(network).cost.layers
            spec = spec_of(network)
            dense = inspect(spec.build()).cost.layers if spec else layers
        except ScumbleError as error:
            self.faults.append(str(error))
            return []
        before = {layer.name: layer.dense_macs for layer in dense}
        return sorted((_layer(one, before) for one in layers), key=lambda one: one.dense_macs)


def _layer(layer: LayerCost, before: dict[str, int]) -> Layer:
    dense = before.get(layer.name, layer.dense_macs)
    pattern = layer.pattern
    n, m = (pattern.n, pattern.m) if pattern else (None, None)
    return Layer(layer.name, dense, layer.macs, n, m)


@dataclass(frozen=True)
class Subjects:
    """All that a report is about, and the comparison that its table shows."""

    found: Comparison
    subjects: tuple[Subject, ...]

    @property
    def firsts(self) -> list[Subject]:
        """Return the first subject of every row that is done: of each, one seed is shown."""
        first = {row.done[0].name for row in self.found.rows if row.done}
        return [subject for subject in self.subjects if subject.cell.name in first]


def subject_of_network(source: str) -> tuple[Subject, CheckpointInfo]:
    """Return a run, a file, or a network of the zoo, as a subject that has no scores yet."""
    folder = Path(source) if Path(source).is_dir() else None
    file = source if folder is None else str(_network_in(folder))
    info = read_info(file)
    cell = CellResult(
        name=Path(source).name or source,
        place=_place(info),
        state="done",
        starts=tuple(read_starts(folder)) if folder else (),
    )
    return Subject(cell, file, folder, source), info


def subjects_of_comparison(path: Path) -> tuple[Comparison, list[Subject]]:
    """Return a comparison, and its cells as subjects."""
    file = path / FILE if path.is_dir() else path
    found, root = Comparison.read(file), file.parent
    return found, [_subject(cell, root, str(path)) for cell in found.cells]


def is_comparison(source: str) -> bool:
    """Return whether a comparison is meant."""
    path = Path(source)
    return (path / FILE).exists() or path.suffix == ".json"


def _subject(cell: CellResult, root: Path, source: str) -> Subject:
    network = cell.file
    if network is not None and network not in scumble.zoo.names():
        beside = root / network if cell.folder else Path(network)
        network = str(beside) if beside.exists() else None
    folder = root / cell.folder if cell.folder else None
    return Subject(cell, network, folder if folder and folder.is_dir() else None, source)


def _network_in(folder: Path) -> Path:
    """Return the network in a run's folder."""
    for name in (FINAL, BEST):
        if (folder / name).exists():
            return folder / name
    raise ComparisonError(
        f"{folder} holds neither a comparison nor a network at the end of a run; "
        f"finish its run first, or give another folder"
    )


def _place(info: CheckpointInfo) -> Place:
    """Return the place of a network in the table, as its file tells."""
    network = str(info.network) if info.network else info.class_name
    record = info.pruned_by
    if record is None:
        return Place(network=network, method=DENSE, label=DENSE, budget="1")
    prune = (info.recipe or {}).get("prune") or {}
    patterns = sorted(set(info.patterns.values()))
    m = patterns[0].m if patterns else None
    budget = prune.get("budget", record.settings.get("budget"))
    if budget is None and len(patterns) == 1:
        budget = str(Fraction(patterns[0].n, patterns[0].m))
    try:
        budget = str(Budget.parse(budget)) if budget is not None else "?"
    except BudgetError:
        budget = "?"
    return Place(network=network, method=record.method, label=record.method, budget=budget, m=m)
