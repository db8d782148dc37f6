"""Draw what benchmarks/cpu_engine.py measured: time against the share of MACs that is kept.

    python benchmarks/plot_cpu_engine.py benchmarks/results/0.1.0/cpu-engine-MACHINE.json

One picture for each number of threads, beside the figures. The dashed line is the ideal: the time
of the best dense engine times the share.
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

PEERS = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
TITLES = {"edsr-x4": "EDSR-baseline x4", "carn-x4": "CARN x4", "rfdn-x4": "RFDN x4"}
OURS, OTHERS, IDEAL = "#b5402a", "#5b6770", "#9aa3a8"
SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0)
TIMES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
APART = 0.05  # of the height of a panel, between two labels


def share(row: dict) -> float:
    """Return the share of the dense MACs that a row keeps."""
    return row["macs"] / row["dense_macs"]


def median(row: dict) -> float:
    """Return the milliseconds of a row."""
    return row["ms"]["median"]


def draw(axes: Axes, name: str, rows: list[dict]) -> None:
    """Draw the lines of one network."""
    draw_ideal(axes, rows)
    for engine in {row["engine"]: None for row in rows}:
        own = [row for row in rows if row["engine"] == engine]
        points = line_of(own)
        if engine in PEERS:
            axes.plot(*zip(*points, strict=True), color=OTHERS, linewidth=1.2)
            continue
        axes.plot(*zip(*points, strict=True), color=OURS, linewidth=2.2, marker="o", zorder=3)
        note(axes, f"scumble, {engine}", points[max(0, len(points) - 2)])
        for row in own:
            if ":" not in row["pattern"] and not dense(row):
                point = share(row), median(row)
                axes.plot(*point, "D", markerfacecolor="white", markeredgecolor=OURS, zorder=4)
                note(axes, row["pattern"], point)
    axes.set_title(TITLES.get(name, name), loc="left", fontsize=12)


def draw_ideal(axes: Axes, rows: list[dict]) -> None:
    """Draw the time of the best peer times the share, if there are peers."""
    peers = [row for row in rows if row["engine"] in PEERS]
    if not peers:
        return
    # Without dense figures those of pruned networks do: to a dense engine they are the same.
    best = min(median(row) for row in [row for row in peers if dense(row)] or peers)
    lowest = min(share(row) for row in rows)
    axes.plot([lowest, 1], [best * lowest, best], "--", color=IDEAL, linewidth=1.2)
    place = (lowest, best * lowest)
    axes.annotate(
        "best dense x share", place, (10, 0), textcoords="offset points", va="center", color=IDEAL
    )


def line_of(rows: list[dict]) -> list[tuple[float, float]]:
    """Return share and time of an engine's uniform patterns, in order."""
    return sorted((share(row), median(row)) for row in rows if ":" in row["pattern"] or dense(row))


def note(axes: Axes, text: str, point: tuple[float, float]) -> None:
    """Write beside a point of ours, above the line that rises to the right of it."""
    axes.annotate(text, point, (-7, 6), textcoords="offset points", ha="right", color=OURS)


def name_peers(axes: Axes, rows: list[dict]) -> None:
    """Write the names of the others at the ends of their lines, one above the other."""
    ends = {row["engine"]: line_of([r for r in rows if r["engine"] == row["engine"]])[-1]
            for row in rows if row["engine"] in PEERS}  # fmt: skip
    to_panel = axes.transData + axes.transAxes.inverted()
    last = 0.0
    for engine, end in sorted(ends.items(), key=lambda item: item[1][1]):
        across, up = to_panel.transform(end)
        last = max(up, last + APART)
        axes.text(
            across + 0.02, last, PEERS[engine], transform=axes.transAxes, va="center", color=OTHERS
        )


def dense(row: dict) -> bool:
    """Return whether a row is of a network that was not pruned."""
    return row["pattern"] == "dense"


def dress(axes: Axes) -> None:
    """Set scales, ticks and words around the lines."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left=0.035, right=3)  # room for the names
    axes.xaxis.set_major_locator(FixedLocator(SHARES))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    axes.yaxis.set_major_locator(FixedLocator(TIMES))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("multiply-accumulates kept")
    axes.grid(axis="y", color="#e6e8ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def figure_of(result: dict, threads: int) -> plt.Figure:
    """Return the picture of all networks on so many threads."""
    rows = [row for row in result["rows"] if row["threads"] == threads]
    names = list(dict.fromkeys(row["network"] for row in rows))
    figure, panels = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 5), squeeze=False, sharey=True
    )
    for axes, name in zip(panels[0], names, strict=True):
        draw(axes, name, [row for row in rows if row["network"] == name])
        dress(axes)
    for axes, name in zip(panels[0], names, strict=True):
        name_peers(axes, [row for row in rows if row["network"] == name])
    panels[0][0].set_ylabel("milliseconds per picture")
    machine, versions = result["machine"], result["versions"]
    figure.suptitle(
        f"{result['width']}x{result['height']} pictures, {threads} "
        f"thread{'s' if threads > 1 else ''} of {machine['cpu']} ({machine['kind']})",
        x=0.01, ha="left", fontsize=13,
    )  # fmt: skip
    used = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    figure.text(0.01, 0.01, f"{result['date'][:10]}; {used}", fontsize=8, color=OTHERS)
    figure.tight_layout(rect=(0, 0.03, 1, 0.99), w_pad=2)
    return figure


def main() -> None:
    """Draw what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="a file of benchmarks/cpu_engine.py")
    parser.add_argument("--format", default="svg", choices=["svg", "png"])
    given = parser.parse_args()
    result = json.loads(given.results.read_text())
    # Letters stay letters, and the same figures give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scumble", "font.size": 10})
    for threads in sorted({row["threads"] for row in result["rows"]}):
        path = given.results.with_name(f"{given.results.stem}-threads-{threads}.{given.format}")
        figure = figure_of(result, threads)
        metadata = {"Date": None} if given.format == "svg" else None
        figure.savefig(path, dpi=150, metadata=metadata)
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()
