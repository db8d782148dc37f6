"""What stands in the folder of a comparison now, and the table of it."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from scumble.compare.cell_folder import CellFolder, folders_of
from scumble.compare.cells import Plan
from scumble.compare.grid import ScoreEntry
from scumble.comparison import FILE, TABLE, Comparison, markdown
from scumble.errors import ComparisonError
from scumble.files import atomic_write
from scumble.machine import command, versions


def look(plan: Plan, root: Path) -> Comparison:
    """Return what is known of every cell."""
    folders = folders_of(plan, root)
    return Comparison(
        title=plan.title,
        sources=dict(plan.sources),
        data=tuple(entry.label for entry in plan.score),
        folders={entry.label: entry.data for entry in plan.score},
        protocols={entry.label: _protocol(entry, folders) for entry in plan.score},
        cells=tuple(folder.result() for folder in folders),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command(),
        versions=versions(),
    )


def write(plan: Plan, root: Path) -> Comparison:
    """Write the table as Markdown and JSON, and return it.

    Others write theirs at the same time. Whoever writes last has looked before somebody else may
    have finished a cell, so it looks again, until nothing has changed.
    """
    while True:
        found = look(plan, root)
        content = json.dumps(found.to_json(), indent=1)
        for name, text in ((FILE, content), (TABLE, markdown(found))):
            try:
                with atomic_write(root / name) as file:
                    file.write((text.rstrip() + "\n").encode())
            except OSError as error:
                raise ComparisonError(
                    f"{root / name} cannot be written: {error.strerror}"
                ) from error
        if _standing(look(plan, root)) == _standing(found):
            return found


def _standing(found: Comparison) -> list[tuple[str, str, int]]:
    return [(cell.name, cell.state, len(cell.scores)) for cell in found.cells]


def _protocol(entry: ScoreEntry, folders: Iterable[CellFolder]) -> str:
    """Return how pictures are scored, as far as it is known."""
    if entry.protocol is not None:
        return entry.protocol
    reports = (folder.scores_on(entry) for folder in folders)
    return next((report["protocol"] for report in reports if report is not None), "")
