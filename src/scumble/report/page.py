"""The page of a report: one file, which asks nothing of the network."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from scumble.comparison import DENSE, Row, Table, make_table, notes, title_of
from scumble.comparison.found import best_rows
from scumble.report.crops import Scene
from scumble.report.figures import Drawing
from scumble.report.ink import INKS
from scumble.report.plots import paper_points
from scumble.report.series import key_of, series_of
from scumble.report.subjects import Subject, Subjects
from scumble.version import __version__

MOST_PLOTS = 6  # of one kind on the page; all are beside it
MOST_TILES = 4
MOST_RECIPES = 60

# The marks of the plots, as paths around the origin.
MARKS = {
    "o": "M5 0a5 5 0 1 1-10 0a5 5 0 1 1 10 0z",
    "s": "M-4.5-4.5h9v9h-9z",
    "^": "M0-5.5l5.5 10h-11z",
    "v": "M0 5.5l5.5-10h-11z",
    "D": "M0-6l6 6l-6 6l-6-6z",
    "P": "M-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
    "X": "M-5-3l2-2l3 3l3-3l2 2l-3 3l3 3l-2 2l-3-3l-3 3l-2-2l3-3z",
    "p": "M0-6l5.7 4.2l-2.2 6.8h-7l-2.2-6.8z",
    "*": "M0-7l1.6 4.8h5.1l-4.1 3l1.5 4.9l-4.1-3l-4.1 3l1.5-4.9l-4.1-3h5.1z",
}

_SECTIONS = ("Trade-off", "Table", "Crops", "Layers", "Progress", "Recipe", "Environment")


def render(
    about: Subjects,
    trade_offs: Sequence[Drawing],
    layers: Sequence[Drawing],
    progress: Sequence[Drawing],
    scenes: Sequence[Scene],
    title: str | None = None,
) -> str:
    """Return the page."""
    script = _part("page.js").strip()
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    table = make_table(about.found)
    # Everything that comes from outside is escaped; what is marked below was written by us.
    page = Environment(autoescape=True, trim_blocks=True).from_string(_part("page.html"))
    return page.render(
        title=title or _title(about),
        lead=_lead(about),
        tiles=_tiles(about.found.rows, about.found.data),
        sections=[{"id": name.lower(), "title": name} for name in _SECTIONS],
        has_spread=any(len(row.done) > 1 for row in about.found.rows),
        trade_offs=_shown(trade_offs),
        legend=_legend(about),
        marks=MARKS,
        table=_table(table),
        notes=list(notes(about.found, table)),
        scenes=scenes,
        several_networks=len({scene.network for scene in scenes}) > 1,
        layers=_shown(layers),
        more_layers=_more(layers),
        progress=_shown(progress),
        more_progress=_more(progress),
        recipes=_recipes(about.subjects),
        environments=_environments(about.subjects),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        style=Markup(_style()),
        script=Markup(script),
        script_hash=Markup(f"sha256-{hashed}"),
    )


def _part(name: str) -> str:
    return (files("scumble.report") / name).read_text()


def _style() -> str:
    """Return the style sheet with the colours of both themes in it."""
    light = " ".join(f"--{role}: {pair[0]};" for role, pair in INKS.items())
    dark = " ".join(f"--{role}: {pair[1]};" for role, pair in INKS.items())
    return _part("page.css").replace("{{ light }}", light).replace("{{ dark }}", dark)


def _title(about: Subjects) -> str:
    rows = about.found.rows
    pruned = [row.place.network for row in rows if row.place.method != DENSE]
    return f"Pruning {_listed(pruned)}" if pruned else _listed(row.place.network for row in rows)


def _lead(about: Subjects) -> str:
    rows = about.found.rows
    methods = _listed(title_of(r.place.label) for r in rows if r.place.method != DENSE)
    budgets = _listed(r.place.budget for r in rows if r.place.method != DENSE)
    data = _listed(about.found.data)
    words = [methods and f"{methods}", budgets and f"at {budgets} of the prunable MACs"]
    words.append(data and f"scored on {data}")
    return ", ".join(word for word in words if word) + "."


def _listed(words: Iterable[str]) -> str:
    *most, last = dict.fromkeys(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _tiles(rows: Sequence[Row], data: Sequence[str]) -> list[dict[str, str]]:
    """Return the best network at every budget, in a few words."""
    first = next((name for name in data if any(row.figure(name) for row in rows)), None)
    if first is None:
        return []
    best = best_rows(rows, first, "psnr")
    best = best or [r for r in rows if r.place.method != DENSE and r.figure(first)]
    return [_tile(row, rows, first) for row in best[:MOST_TILES]]


def _tile(row: Row, rows: Sequence[Row], data: str) -> dict[str, str]:
    place, figure = row.place, row.figure(data)
    assert figure is not None
    alike = [r for r in rows if r.place.network == place.network and r is not row]
    dense = next((r for r in alike if r.place.method == DENSE and r.figure(data)), None)
    rivals = [r.figure(data) for r in alike if r.place.budget == place.budget]
    known = [one.mean for one in rivals if one is not None]
    told: list[str] = []
    if known:
        told.append(f"{figure.mean - max(known):+.2f} dB to the next method")
    whole = dense.figure(data) if dense else None
    if dense is not None and whole is not None:
        told.append(f"{figure.mean - whole.mean:+.2f} dB to unpruned")
        if dense.gmacs and row.gmacs:
            told.append(f"{dense.gmacs / row.gmacs:.1f} times fewer MACs")
    series = series_of(r for r in rows if r.done and r.place.network == place.network)
    drawn = series[key_of(place)]
    return {
        "role": drawn.hand.role,
        "over": f"{place.network} at {place.budget}: {drawn.title}",
        "figure": f"{figure.mean:.2f}",
        "unit": f"dB on {data}",
        "under": ", ".join(told).replace("-", "\u2212") if told else "",
    }


def _legend(about: Subjects) -> list[dict[str, Any]]:
    """Return the lines of the trade-off plots: a mark, its colour and its name."""
    series = [
        (row.place.network, one)
        for row in about.found.rows
        if row.done and (one := series_of(_alike(about, row)).get(key_of(row.place)))
    ]
    named = {one.title: {"role": one.hand.role, "mark": one.hand.marker} for _, one in series}
    if any(row.done and row.place.method == DENSE for row in about.found.rows):
        named = {"Unpruned": {"role": "ink", "mark": "*"}, **named}
    data = about.found.data
    if any(paper_points(network, name, one.key) for network, one in series for name in data):
        named["the paper's"] = {"role": "muted", "mark": ""}
    return [{"title": title, **drawn} for title, drawn in named.items()]


def _alike(about: Subjects, row: Row) -> list[Row]:
    """Return the rows that are done of the network of one."""
    rows = about.found.rows
    return [one for one in rows if one.done and one.place.network == row.place.network]


def _table(table: Table) -> dict[str, Any]:
    """Return the table; where all is about one network, that column says nothing."""
    if len({line.entries[0] for line in table.lines}) == 1:
        lines = [replace(line, entries=line.entries[1:]) for line in table.lines]
        table = Table(table.head[1:], table.words - 1, tuple(lines))
    return {**asdict(table), "words_named": table.head.index("method") + 1}


def _shown(drawings: Sequence[Drawing]) -> list[dict[str, Any]]:
    return [drawing.on_page() for drawing in drawings[:MOST_PLOTS]]


def _more(drawings: Sequence[Drawing]) -> str:
    left = len(drawings) - MOST_PLOTS
    return f"{left} more lie beside this page." if left > 0 else ""


def _recipes(subjects: Sequence[Subject]) -> list[dict[str, str]]:
    found = [(s.cell.name, s.recipe) for s in subjects if s.recipe is not None]
    return [{"title": name, "text": text} for name, text in found[:MOST_RECIPES]]


def _environments(subjects: Sequence[Subject]) -> list[dict[str, str]]:
    """Return every machine with its versions, and the networks that were trained there."""
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for subject in subjects:
        for start in subject.cell.starts:
            places.setdefault(tuple(_facts(start)), []).append(subject.cell.name)
    told = {facts: list(dict.fromkeys(names)) for facts, names in places.items()}
    return [
        {**dict(facts), "networks": _listed(names) if len(names) < 5 else f"{len(names)} of them"}
        for facts, names in told.items()
    ]


def _facts(start: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what is known of a machine, in words."""
    machine, versions = start.get("machine") or {}, start.get("versions") or {}
    device = start.get("device")
    if device not in (None, "cpu"):
        yield "device", str(device)
    kind = f" ({machine['kind']})" if machine.get("kind") else ""
    yield "processor", f"{machine.get('cpu', '?')}{kind}, {machine.get('cores', '?')} cores"
    if machine.get("memory_gib"):
        yield "memory", f"{machine['memory_gib']} GiB"
    yield "system", str(machine.get("system", "?"))
    yield "versions", ", ".join(f"{name} {v}" for name, v in versions.items() if v)
    yield "command", str(start.get("command", "?"))
