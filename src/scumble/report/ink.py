"""The colours of a report, and plots whose colours follow the theme of the page.

A plot is drawn in the light theme's colours. Inside the page each of them becomes a variable of the
style sheet, so that one drawing serves both themes.
"""

import io
import re
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

# By role: the colour in the light theme, and in the dark one.
INKS = {
    "ground": ("#fdfcf9", "#17181c"),
    "ink": ("#23211d", "#ece8df"),
    "muted": ("#6e6a61", "#a39e94"),
    "rule": ("#ddd8cc", "#3a3b40"),
    "wash": ("#ddd7c8", "#34363d"),
    "card": ("#f5f2ea", "#202227"),
    "sls": ("#c2401f", "#ff8a66"),
    "oneshot": ("#2a63a8", "#7db4f5"),
    "sr-ste": ("#1f7551", "#5fcf9d"),
    "filter": ("#8f6a06", "#e3b341"),
    "other1": ("#7a3f9d", "#c795e8"),
    "other2": ("#0f7c86", "#4fcfdb"),
    "other3": ("#a8326b", "#f58ab9"),
    "other4": ("#5a6472", "#b3bfce"),
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 11.0,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INKS["muted"][0],
    "axes.labelcolor": INKS["ink"][0],
    "axes.labelsize": 11.0,
    "axes.titlesize": 12.0,
    "axes.titlecolor": INKS["ink"][0],
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INKS["rule"][0],
    "grid.linewidth": 0.7,
    "text.color": INKS["ink"][0],
    "xtick.color": INKS["muted"][0],
    "ytick.color": INKS["muted"][0],
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Hand:
    """How one series is drawn: the role of its colour, and its marker."""

    role: str
    marker: str

    @property
    def colour(self) -> str:
        """Return the colour of the light theme, in which everything is drawn first."""
        return INKS[self.role][0]


def colour(role: str) -> str:
    """Return the colour of a role in the light theme."""
    return INKS[role][0]


def svg_of(figure: Figure) -> str:
    """Return a figure as an SVG file in the light theme."""
    file = io.StringIO()
    with rc_context({"svg.hashsalt": "scumble", **STYLE}):
        figure.savefig(file, format="svg", facecolor=colour("ground"), metadata={"Date": None})
    return file.getvalue()


def png_of(figure: Figure) -> bytes:
    """Return a figure as a PNG file in the light theme."""
    file = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(file, format="png", facecolor=colour("ground"), dpi=160)
    return file.getvalue()


def inline_svg(figure: Figure, name: str) -> str:
    """Return a figure as a part of a page: no ids but its own, colours that follow the theme."""
    file = io.StringIO()
    with rc_context({"svg.hashsalt": name, **STYLE}):
        figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(_SAID))
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    for unwanted in ("metadata", "style"):
        svg = re.sub(rf"<{unwanted}.*?</{unwanted}>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    return re.sub(r"<[^>]*>", lambda tag: _themed(tag[0]), svg).strip()


def _themed(tag: str) -> str:
    """Return a tag of a plot as the page has it; texts between tags stay as they are."""
    tag = re.sub(r' xmlns(:\w+)?="[^"]*"| id="[\w.]+_\d+"', "", tag)
    tag = tag.replace("xlink:href", "href").replace("\n", " ")
    tag = re.sub(r"(\d+\.\d{2})\d+", r"\1", tag)
    tag = re.sub(r"font-family: [^;\"]*", "font-family: inherit", tag)
    tag = re.sub(r"font: ([^\";]*?px) [^;\"]*", r"font: \1 var(--sans)", tag)
    for role, (light, _) in INKS.items():
        tag = tag.replace(light, f"var(--{role})")
    return tag


_SAID = ("Date", "Creator", "Format", "Type")
