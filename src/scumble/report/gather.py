"""From comparisons, runs and files to the subjects of one report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scumble.checkpoint import load
from scumble.checkpoint_info import CheckpointInfo
from scumble.comparison import CellResult, Comparison, Place
from scumble.errors import ComparisonError
from scumble.evaluate import Report, evaluate
from scumble.inspection import inspect
from scumble.machine import command, versions
from scumble.report.subjects import (
    Subject,
    Subjects,
    is_comparison,
    subject_of_network,
    subjects_of_comparison,
)

SIZE = (180, 320)

Told = Callable[[str], None]  # what goes on


def gather(
    sources: Sequence[str],
    data: Sequence[str] = (),
    device: str | None = None,
    told: Told = lambda _: None,
) -> Subjects:
    """Return the subjects of a report, scored.

    Args:
        sources: folders of comparisons or runs, files, and networks of the zoo.
        data: folders of pictures to score runs and files on; comparisons have their scores.
        device: where to restore pictures.
        told: called with what goes on.
    """
    if not sources:
        raise ComparisonError("a report needs a comparison, a run or a file, got none")
    comparisons: list[Comparison] = []
    subjects: list[Subject] = []
    for source in dict.fromkeys(sources):
        if is_comparison(source):
            found, cells = subjects_of_comparison(Path(source))
            comparisons.append(found)
            subjects += cells
        else:
            subjects.append(_scored(*subject_of_network(source), data, device, told))
    subjects = _told_apart(subjects)
    return Subjects(_merged(comparisons, subjects, data), tuple(subjects))


def _scored(
    subject: Subject,
    info: CheckpointInfo,
    data: Sequence[str],
    device: str | None,
    told: Told,
) -> Subject:
    """Return a network with its costs, and with scores: measured now, or those its file tells."""
    assert subject.network is not None
    cost = inspect(load(subject.network), SIZE).cost
    known: dict[str, Any] = {
        "macs": {"conv": cost.conv_macs, "paper": cost.paper_macs},
        "parameters": cost.parameters,
        "scores": _told_scores(info),
    }
    if data:
        reports: dict[str, Report] = {}
        for folder in data:
            told(f"scoring {subject.cell.name} on {Path(folder).name}")
            report = evaluate(subject.network, folder, device=device)
            reports[Path(folder).resolve().name] = report
        known["scores"] = {label: r.evaluation.mean for label, r in reports.items()}
        known["pictures"] = {
            label: {p.name: p.scores.get("psnr") for p in report.evaluation.scored}
            for label, report in reports.items()
        }
    return replace(subject, cell=subject.cell.model_copy(update=known))


def _told_scores(info: CheckpointInfo) -> dict[str, dict[str, float | None]]:
    """Return the PSNR on every set of pictures that a file tells of itself."""
    sets = (scores for scores in (info.results or {}).values() if isinstance(scores, dict))
    return {
        name: {"psnr": float(psnr)}
        for scores in sets
        for name, psnr in scores.items()
        if type(psnr) in (int, float)
    }


def _told_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """Return subjects of which no two are one cell of the table: where they are from is added."""
    places = [_key(subject.cell) for subject in subjects]
    names = [subject.cell.name for subject in subjects]
    return [
        _renamed(subject, places.count(_key(subject.cell)) > 1, names.count(subject.cell.name) > 1)
        for subject in subjects
    ]


def _key(cell: CellResult) -> tuple[object, ...]:
    place: Place = cell.place
    return (place.network, place.label, place.budget, place.setting, place.m, place.seed)


def _renamed(subject: Subject, in_table: bool, by_name: bool) -> Subject:
    """Return a subject with its source in its setting, and in its name, as far as is needed."""
    cell = subject.cell
    update: dict[str, Any] = {}
    if in_table:
        setting = " ".join(word for word in (cell.place.setting, subject.source) if word)
        update["place"] = cell.place.model_copy(update={"setting": setting})
    if by_name:
        update["name"] = f"{subject.source} {cell.name}"
    return replace(subject, cell=cell.model_copy(update=update)) if update else subject


def _merged(
    comparisons: Sequence[Comparison], subjects: Sequence[Subject], data: Sequence[str]
) -> Comparison:
    """Return one comparison of everything."""
    cells = tuple(subject.cell for subject in subjects)
    folders = {Path(folder).resolve().name: folder for folder in data}
    names = [*folders, *(name for found in comparisons for name in found.data)]
    names += [name for cell in cells for name in cell.scores]
    one = comparisons[0] if len(comparisons) == 1 else None
    alone = one if one is not None and len(one.cells) == len(cells) else None
    return Comparison(
        title=alone.title if alone else " ".join(dict.fromkeys(c.place.network for c in cells)),
        sources={key: value for found in comparisons for key, value in found.sources.items()},
        data=tuple(dict.fromkeys(names)),
        folders={k: v for found in comparisons for k, v in found.folders.items()} | folders,
        protocols={k: v for found in comparisons for k, v in found.protocols.items()},
        cells=cells,
        date=alone.date if alone else datetime.now(UTC).isoformat(timespec="seconds"),
        command=alone.command if alone else command(),
        versions=alone.versions if alone else versions(),
    )
