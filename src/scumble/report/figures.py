"""The plots of a report as files, and as parts of its page."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from scumble.comparison import Row
from scumble.errors import ComparisonError
from scumble.files import atomic_write
from scumble.report.ink import Hand, inline_svg, png_of, svg_of
from scumble.report.plots import NARROW, WIDE, Curve, layers, progress, trade_off
from scumble.report.series import Key, Series, key_of, series_of
from scumble.report.subjects import Layer, Subject, Subjects


@dataclass(frozen=True)
class Drawing:
    """A plot that can be drawn at any width."""

    name: str  # of its files
    title: str  # for those who cannot see it
    draw: Callable[[float], Figure]
    caption: str = ""
    on_page_only: Callable[[float], Figure] | None = None  # another form, where the page has more
    layers: Sequence[Layer] = ()  # that it shows

    def on_page(self) -> dict[str, Any]:
        """Return what the page shows: a drawing for a desk, and one for a phone."""
        sizes = {"wide": WIDE, "narrow": NARROW}
        # What matplotlib writes is escaped already.
        drawn = {
            size: Markup(inline_svg((self.on_page_only or self.draw)(width), f"{self.name} {size}"))
            for size, width in sizes.items()
        }
        return {"title": self.title, "caption": self.caption, "layers": self.layers, **drawn}

    def write(self, folder: Path) -> None:
        """Write the plot as SVG and as PNG."""
        figure = self.draw(WIDE)
        contents = {".svg": svg_of(figure).encode(), ".png": png_of(figure)}
        for ending, content in contents.items():
            path = folder / f"{self.name}{ending}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as file:
                    file.write(content)
            except OSError as error:
                raise ComparisonError(f"{path} cannot be written: {error.strerror}") from error


def trade_off_plots(about: Subjects) -> list[Drawing]:
    """Return a plot of quality against cost for every network and set of pictures."""
    made: list[Drawing] = []
    for network, rows in _by_network(about.found.rows).items():
        for data in about.found.data:
            if any(row.gmacs and row.figure(data) for row in rows):
                draw = partial(trade_off, network, data, rows, series_of(rows))
                made.append(
                    Drawing(
                        _file_name("trade-off", network, data),
                        f"PSNR of {network} on {data} against GMACs",
                        draw,
                        f"{network} on {data}. GMACs on 320x180, counted as in the paper's tables.",
                        on_page_only=partial(draw, legend=False),
                    )
                )
    return made


def layer_plots(about: Subjects) -> list[Drawing]:
    """Return what is kept of every layer; the same N everywhere only if there is nothing else."""
    return _layer_plots(about, uniform=False) or _layer_plots(about, uniform=True)


def _layer_plots(about: Subjects, uniform: bool) -> list[Drawing]:
    made: list[Drawing] = []
    for network, rows in _by_network(about.found.rows).items():
        series = series_of(rows)
        for subject in _of_network(about.firsts, network):
            patterns = {(layer.n, layer.m) for layer in subject.layers if layer.n is not None}
            if subject.layers and (len(patterns) == 1) == uniform:
                line = _line(series, subject)
                title = f"{network}, {line.title} {subject.place.budget}"
                made.append(
                    Drawing(
                        _file_name("layers", subject.cell.name),
                        f"MACs and N of the layers of {title}",
                        partial(layers, title, subject.layers, line),
                        layers=subject.layers,
                    )
                )
    return made


def progress_plots(about: Subjects) -> list[Drawing]:
    """Return the logs of the runs at every budget of every network, side by side."""
    made: list[Drawing] = []
    for network, rows in _by_network(about.found.rows).items():
        series = series_of(rows)
        by_budget: dict[str, list[Curve]] = {}
        for subject in _of_network(about.firsts, network):
            if subject.log:
                curve = Curve(_line(series, subject), subject.log)
                by_budget.setdefault(subject.place.budget, []).append(curve)
        for budget, curves in by_budget.items():
            title = f"{network} to {budget}" if budget != "1" else f"{network}, unpruned"
            made.append(
                Drawing(
                    _file_name("progress", network, budget),
                    f"Loss, GMACs and pressure of {title}, step by step",
                    partial(progress, title, curves),
                )
            )
    return made


def _line(series: dict[Key, Series], subject: Subject) -> Series:
    key = key_of(subject.place)
    return series.get(key) or Series(key, "Unpruned", Hand("ink", "*"))


def _of_network(subjects: Iterable[Subject], network: str) -> list[Subject]:
    return [subject for subject in subjects if subject.place.network == network]


def _by_network(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.done:
            found.setdefault(row.place.network, []).append(row)
    return found


def _file_name(*words: str) -> str:
    """Return a name for a file, whatever people call their networks and pictures."""
    plain = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-.") for word in words)
    exact = all(re.fullmatch(r"[A-Za-z0-9./-]+", word) for word in words) and len(plain) < 80
    short = hashlib.sha256("\n".join(words).encode()).hexdigest()[:6]
    return plain if exact else f"{plain[:80]}-{short}"
