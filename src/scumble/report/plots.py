"""The plots of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from scumble import paper
from scumble.comparison import DENSE, Row
from scumble.report.ink import STYLE, colour
from scumble.report.series import Key, Series, key_of
from scumble.report.subjects import Layer

WIDE, NARROW = 10.0, 5.0  # inches: for a desk, and for a phone
_MOST_POINTS = 240  # of a curve: more cannot be seen


@dataclass(frozen=True)
class Curve:
    """The log of one run, and how it is drawn."""

    series: Series
    events: Sequence[Mapping[str, Any]]


def trade_off(
    network: str,
    data: str,
    rows: Sequence[Row],
    series: Mapping[Key, Series],
    width: float,
    legend: bool = True,
) -> Figure:
    """Return PSNR against GMACs, one line per method (Fig. 1 of the paper)."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, 5.2 if width == WIDE else 4.6), layout="constrained")
        axes = figure.subplots()
        for row in rows:
            if row.place.method == DENSE:
                _dense_point(axes, row, data)
        for one in series.values():
            _line(axes, one, [row for row in rows if key_of(row.place) == one.key], data)
        shown = _paper_lines(axes, network, data, series)
        _name_budgets(axes, rows, data)
        axes.set_xscale("log")
        axes.set_xlabel("GMACs")
        axes.set_ylabel(f"PSNR on {data} (dB)")
        _plain_ticks(axes)
        axes.margins(0.08 if width == WIDE else 0.16, 0.12)
        if legend:
            _legend(figure, axes, "dashed: the paper's" if shown else "")
        return figure


def layers(title: str, found: Sequence[Layer], series: Series, width: float) -> Figure:
    """Return MACs kept and N of every layer, sorted by cost (Fig. 6 of the paper)."""
    pruned = [layer for layer in found if layer.n is not None]
    with rc_context(STYLE):
        height = 6.0 if pruned else 3.4
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(2 if pruned else 1, sharex=True, squeeze=False)[:, 0]
        places = range(1, len(found) + 1)
        top: Axes = panels[0]
        dense = [layer.dense_macs / 1e9 for layer in found]
        top.bar(places, dense, width=0.84, color=colour("wash"), label="before")
        kept = [layer.macs / 1e9 for layer in found]
        top.bar(places, kept, width=0.84, color=series.hand.colour, label="kept")
        _log_scale(top)
        top.set_ylabel("GMACs, log scale")
        top.set_title(title)
        top.legend(loc="upper left")
        if pruned:
            _n_panel(panels[1], found, series)
        for panel in panels:
            panel.grid(visible=False, axis="x")
        panels[-1].set_xlabel("layer, the dearest before pruning last")
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        panels[-1].set_xlim(0.2, len(found) + 0.8)
        return figure


def progress(title: str, curves: Sequence[Curve], width: float) -> Figure:
    """Return loss, cost and pressure while runs went on (Fig. S1 of the paper)."""
    wanted = [("loss", "task loss"), ("gmacs", "GMACs"), ("pressure", "pressure")]
    kept = [
        (key, name)
        for key, name in wanted
        if any(event.get(key) is not None for curve in curves for event in curve.events)
    ]
    with rc_context(STYLE):
        figure = Figure(figsize=(width, 1.1 + 1.9 * len(kept)), layout="constrained")
        panels = figure.subplots(len(kept), sharex=True, squeeze=False)[:, 0]
        for (key, name), panel in zip(kept, panels, strict=True):
            for curve in curves:
                _curve(panel, curve, key)
            panel.set_ylabel(name)
            if key == "pressure":
                _log_scale(panel)
            if key == "gmacs":
                panel.set_ylim(bottom=0)
            if key == "loss":
                _fit(panel, curves)
        figure.align_ylabels(panels)
        panels[0].set_title(title)
        panels[-1].set_xlabel("training step")
        if len(curves) > 1:
            panels[0].legend(loc="upper right", handlelength=1.4)
        return figure


def task_losses(events: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Return the loss without what pruning adds to it, by step.

    A loss is a mean since the event before, a penalty is of one moment: the mean of the two
    around it is taken. Where the budget is met the penalty falls to nothing somewhere between
    two events, and the loss between them says nothing.
    """
    found: dict[int, float] = {}
    before: Mapping[str, Any] | None = None
    for event in events:
        now = event.get("penalty") or 0.0
        last = now if before is None else before.get("penalty") or 0.0
        if not (last and event.get("reached")):
            found[event["step"]] = event["loss"] - (last + now) / 2
        before = event
    return found


def _dense_point(axes: Axes, row: Row, data: str) -> None:
    figure, gmacs = row.figure(data), row.gmacs
    if figure is None or gmacs is None:
        return
    axes.axhline(figure.mean, color=colour("muted"), linewidth=1, linestyle=(0, (1, 3)))
    axes.plot([gmacs], [figure.mean], marker="*", markersize=13, linestyle="none", zorder=4)
    axes.lines[-1].set(color=colour("ink"), label="Unpruned")


def _line(axes: Axes, series: Series, rows: Sequence[Row], data: str) -> None:
    """Draw a method through its budgets, with the spread over the seeds."""
    points = []
    for row in rows:
        figure, gmacs = row.figure(data), row.gmacs
        if figure is not None and gmacs is not None:
            points.append((gmacs, figure.mean, figure.spread or 0.0, row.place.budget))
    if not points:
        return
    points.sort()
    macs, means, spreads, _ = zip(*points, strict=True)
    hand = series.hand
    axes.errorbar(
        macs,
        means,
        spreads if any(spreads) else None,
        color=hand.colour,
        marker=hand.marker,
        markersize=7.5,
        markeredgecolor=colour("ground"),
        markeredgewidth=1.2,
        capsize=3,
        label=series.title,
        zorder=3,
    )


def _name_budgets(axes: Axes, rows: Sequence[Row], data: str) -> None:
    """Write every budget beside the best point that it has."""
    best: dict[str, tuple[float, float]] = {}
    for row in rows:
        figure, gmacs = row.figure(data), row.gmacs
        if figure is not None and gmacs is not None and row.place.method != DENSE:
            point = (figure.mean, gmacs)
            best[row.place.budget] = max(point, best.get(row.place.budget, point))
    for budget, (mean, gmacs) in best.items():
        axes.annotate(
            budget,
            (gmacs, mean),
            (-8, 6),
            textcoords="offset points",
            ha="right",
            fontsize=10,
            color=colour("muted"),
        )


def paper_points(network: str, data: str, key: Key) -> list[tuple[float, float]]:
    """Return GMACs and PSNR of the paper's own networks, by its Tables 1 and 2."""
    label, setting = key
    return sorted(
        (row.gmacs, psnr)
        for row in paper.rows()
        if (row.network, row.method, row.setting) == (network, label, setting)
        and row.table in ("1", "2")
        and row.gmacs is not None
        and (psnr := row.score(data)) is not None
    )


def _paper_lines(axes: Axes, network: str, data: str, series: Mapping[Key, Series]) -> bool:
    """Draw the paper's own points, faint; return whether there are any."""
    shown = False
    for one in series.values():
        points = paper_points(network, data, one.key)
        if points:
            shown = True
            axes.plot(
                *zip(*points, strict=True),
                color=one.hand.colour,
                marker=one.hand.marker,
                markersize=4.5,
                markerfacecolor="none",
                linewidth=1.2,
                linestyle=(0, (4, 3)),
                alpha=0.5,
                zorder=2,
            )
    return shown


def _plain_ticks(axes: Axes) -> None:
    """Put whole numbers on a logarithmic axis, few enough to be read."""
    low, high = axes.get_xlim()
    steps = [base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5)]
    ticks = [tick for tick in steps if low <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))


def _log_scale(panel: Axes) -> None:
    """Make an axis logarithmic, with numbers that are written plainly."""
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    subs = (1.0,) if high / low > 30 else (1.0, 2.0, 5.0)
    panel.yaxis.set_major_locator(LogLocator(10, subs))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _n_panel(panel: Axes, found: Sequence[Layer], series: Series) -> None:
    """Draw N, and the N that would be the same everywhere for the same cost."""
    places = [place for place, layer in enumerate(found, 1) if layer.n is not None]
    pruned = [layer for layer in found if layer.n is not None and layer.m is not None]
    counts = [layer.n or 0 for layer in pruned]
    panel.bar(places, counts, width=0.84, color=series.hand.colour)
    m = max(layer.m or 0 for layer in pruned)
    uniform = m * sum(one.macs for one in pruned) / sum(one.dense_macs for one in pruned)
    panel.axhline(uniform, color=colour("ink"), linewidth=1.2, linestyle=(0, (5, 3)))
    panel.set_ylabel(f"N of {m}")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    panel.set_ylim(0, max(*counts, uniform) * 1.25)
    panel.text(
        0.01,
        0.97,
        f"dashed: {uniform:.1f} everywhere costs the same",
        transform=panel.transAxes,
        va="top",
        color=colour("muted"),
        fontsize=10,
    )


def _curve(panel: Axes, curve: Curve, key: str) -> None:
    """Draw one quantity of one run, with a mark where its budget was met."""
    hand = curve.series.hand
    met = next((event["step"] for event in curve.events if event.get("reached")), None)
    if key == "loss":
        values = task_losses(curve.events)
        steps = _thinned(list(values))
        raw = [values[step] for step in steps]
        panel.plot(steps, raw, color=hand.colour, linewidth=0.8, alpha=0.3)
        panel.plot(steps, _smooth(raw), color=hand.colour, label=curve.series.title)
    else:
        values = {e["step"]: e[key] for e in curve.events if e.get(key) is not None}
        if key == "pressure" and met is not None:  # then nothing is pressed any more
            values = {step: value for step, value in values.items() if step <= met}
        steps = _thinned(list(values))
        panel.plot(steps, [values[step] for step in steps], color=hand.colour)
    if met is not None and met > curve.events[0]["step"]:
        panel.axvline(met, color=hand.colour, linewidth=1, linestyle=(0, (2, 2)))


def _fit(panel: Axes, curves: Sequence[Curve]) -> None:
    """Let a panel of losses end where their trends do: single batches go far beyond."""
    trends = [_smooth(list(task_losses(curve.events).values())) for curve in curves]
    values = [value for trend in trends for value in trend]
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    panel.set_ylim(low - margin, high + 2 * margin)


def _thinned(steps: Sequence[int]) -> list[int]:
    """Return as many steps as can be seen, the last among them."""
    every = max(1, -(-len(steps) // _MOST_POINTS))
    return list(steps[::-every])[::-1]


def _smooth(values: Sequence[float], reach: int = 4) -> list[float]:
    """Return the median around every value: a spike of one batch is no trend."""
    around = (sorted(values[max(0, n - reach) : n + reach + 1]) for n in range(len(values)))
    return [near[len(near) // 2] for near in around]


def _legend(figure: Figure, axes: Axes, more: str) -> None:
    """Name the lines above a plot."""
    handles, titles = axes.get_legend_handles_labels()
    kept = dict(zip(titles, handles, strict=True))
    if more:
        kept[more] = axes.plot([], [], color=colour("muted"), linewidth=1.2, linestyle="--")[0]
    figure.legend(
        list(kept.values()), list(kept), loc="outside upper left", ncols=4, handlelength=1.8
    )
