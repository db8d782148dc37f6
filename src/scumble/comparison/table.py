"""The table of a comparison, in the paper's form: for terminals, files and pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scumble.comparison.found import DENSE, Comparison, Row, best_rows, metrics_of

# What the paper calls the methods.
TITLES = {
    DENSE: "Unpruned",
    "oneshot": "One-shot",
    "filter": "Filter pruning",
    "sr-ste": "SR-STE",
    "sls": "SLS",
}
_DIGITS = {"psnr": 2, "ssim": 4, "lpips": 4}


@dataclass(frozen=True)
class Entry:
    """One entry of the table."""

    ours: str
    paper: str = ""  # the paper's number for it
    best: bool = False

    def __str__(self) -> str:
        return f"{self.ours} ({self.paper})" if self.paper else self.ours


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    entries: tuple[Entry, ...]
    begins: bool  # another network or budget than the line before
    missing: tuple[str, ...] = ()  # what is not in it, and why


@dataclass(frozen=True)
class Table:
    """Heads and lines."""

    head: tuple[str, ...]
    words: int  # columns of words before those of numbers
    lines: tuple[Line, ...]

    @property
    def has_paper(self) -> bool:
        """Return whether a number of the paper stands in it."""
        return any(entry.paper for line in self.lines for entry in line.entries)


def make_table(found: Comparison) -> Table:
    """Return the table of a comparison."""
    rows = found.rows
    with_settings = any(row.place.setting for row in rows)
    words = ("network", "method", "budget", *(["setting"] if with_settings else []))
    columns = [(data, metric) for data in found.data for metric in metrics_of(rows) or ["psnr"]]
    best = {column: best_rows(rows, *column) for column in columns}
    lines: list[Line] = []
    before: Row | None = None
    for row in rows:
        place = row.place
        begins = before is None or not _alike(before, row)
        before = row
        named = [place.network, title_of(place.label), place.budget if _is_pruned(row) else ""]
        named += [place.setting] if with_settings else []
        scored = (_score(row, *column, row in best[column]) for column in columns)
        entries = (*map(Entry, named), *_costs(row), *scored)
        lines.append(Line(entries, begins, tuple(_missing(row))))
    head = (*words, "GMACs", "parameters", *(f"{d} {m.upper()}" for d, m in columns))
    return Table(head, len(words), tuple(lines))


def title_of(label: str) -> str:
    """Return what the table calls a method."""
    return TITLES.get(label, label)


def markdown(found: Comparison) -> str:
    """Return the table, and what is to be known of it, as a Markdown file."""
    table = make_table(found)
    rule = ["---"] * table.words + ["---:"] * (len(table.head) - table.words)
    lines = [_piped(table.head), _piped(rule)]
    for line in table.lines:
        lines.append(_piped([f"**{e}**" if e.best else str(e) for e in line.entries]))
    told = [f"- {_plain(text)}" for text in notes(found, table)]
    return "\n".join([f"# {_plain(found.title)}", "", *lines, "", *told, ""])


def notes(found: Comparison, table: Table) -> Iterator[str]:
    """Yield what is to be known of the table."""
    if table.has_paper:
        yield "In brackets: the paper's numbers, of its own networks trained on its own photos."
    for protocol in dict.fromkeys(found.protocols.values()):
        sets = ", ".join(data for data, one in found.protocols.items() if one == protocol)
        yield f"Scored by {protocol}: {sets}." if protocol else f"Not scored yet: {sets}."
    if any(len(row.cells) > 1 for row in found.rows):
        yield "±: the standard deviation over the seeds."
    for line in table.lines:
        yield from line.missing
    for cell in found.cells:
        yield from (f"{cell.name}: {warning}" for warning in cell.warnings)
    yield f"{found.command} ({found.date}, scumble {found.versions.get('scumble')})"


def _alike(one: Row, other: Row) -> bool:
    a, b = one.place, other.place
    return (a.network, a.budget) == (b.network, b.budget)


def _is_pruned(row: Row) -> bool:
    return row.place.method != DENSE


def _costs(row: Row) -> tuple[Entry, Entry]:
    theirs = row.paper
    gmacs, parameters = row.gmacs, row.parameters
    if gmacs is None or parameters is None:
        return Entry(""), Entry("")
    their_gmacs = f"{theirs.gmacs:.2f}" if theirs and theirs.gmacs else ""
    their_parameters = f"{theirs.parameters:,}" if theirs and theirs.parameters else ""
    return Entry(f"{gmacs:.2f}", their_gmacs), Entry(f"{parameters:,}", their_parameters)


def _score(row: Row, data: str, metric: str, best: bool) -> Entry:
    digits = _DIGITS.get(metric, 4)
    figure = row.figure(data, metric)
    theirs = row.paper.score(data, metric) if row.paper else None
    paper = "" if theirs is None else f"{theirs:.{digits}f}"
    if figure is None:
        return Entry(_state(row), paper)
    spread = "" if figure.spread is None else f" ±{figure.spread:.{digits}f}"
    return Entry(f"{figure.mean:.{digits}f}{spread}", paper, best)


def _state(row: Row) -> str:
    """Return why a row has no score, in a word."""
    states = [cell.state for cell in row.cells]
    return "failed" if "failed" in states else "-" if "done" in states else states[0]


def _missing(row: Row) -> Iterator[str]:
    """Yield what is not in a row."""
    for cell in row.cells:
        if cell.state != "done":
            yield f"{cell.name} {_STATES[cell.state]}{f': {cell.told}' if cell.told else ''}"


_STATES = {
    "failed": "failed",
    "working": "is at work",
    "stopped": "was stopped",
    "waiting": "is not begun",
}


def _piped(words: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(word) for word in words)} |"


def _plain(text: str) -> str:
    """Return a text that does not break a table, or a line."""
    return " ".join(text.replace("|", "\\|").split())
