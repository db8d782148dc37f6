"""The parts of a report by hand."""

import re

import pytest
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from scumble.report.crops import SIDE, _worst_and_middle, most_different, side_by_side
from scumble.report.ink import INKS, STYLE, inline_svg
from scumble.report.plots import task_losses
from scumble.report.series import series_of
from scumble.report.subjects import Subject
from tests.comparison.found import cell, comparison


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG counts it."""

    def light(colour: str) -> float:
        parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_every_ink_can_be_read_on_its_ground(theme):
    inks = {role: pair[theme] for role, pair in INKS.items()}
    for role, colour in inks.items():
        if role not in ("ground", "rule", "wash", "card"):
            assert contrast(colour, inks["ground"]) >= 4.5, role
            assert contrast(colour, inks["card"]) >= 4.4, role


def test_no_two_roles_share_a_colour():
    assert len({pair[0] for pair in INKS.values()}) == len(INKS)


def test_texts_in_a_plot_stay_as_they_are():
    text = f'{INKS["sls"][0]} 1.23456 id="a_1" <b>&$x$ xlink:href'
    with rc_context(STYLE):
        figure = Figure(figsize=(4, 3))
        figure.subplots().set_title(text)
    svg = inline_svg(figure, "one")
    assert text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in svg
    assert svg.startswith("<svg viewBox=")
    assert not re.search(r'id="[\w.]+_\d+"', svg.replace(text.partition("<")[0], ""))


def test_the_names_inside_two_plots_differ():
    with rc_context(STYLE):
        figure = Figure(figsize=(4, 3))
        figure.subplots().plot([1, 2], [1, 2], marker="o")
    names = [set(re.findall(r'id="([^"]+)"', inline_svg(figure, name))) for name in ("a", "b")]
    assert names[0]
    assert not names[0] & names[1]


def test_the_task_loss_is_without_the_penalty():
    events = [
        {"step": 1, "loss": 5.0, "penalty": 2.0, "reached": False},
        {"step": 2, "loss": 6.0, "penalty": 4.0, "reached": False},
        {"step": 3, "loss": 4.0, "penalty": 0.0, "reached": True},  # partly with, partly without
        {"step": 4, "loss": 1.5, "penalty": 0.0, "reached": True},
    ]
    assert task_losses(events) == {1: 3.0, 2: 3.0, 4: 1.5}
    assert task_losses([{"step": 1, "loss": 5.0}]) == {1: 5.0}


def test_methods_keep_their_colours_and_settings_differ():
    rows = comparison(cell("dense", "1"), cell("sls"), cell("oneshot"), cell("sls", "1/4")).rows
    series = series_of(rows)
    assert [(one.title, one.hand.role) for one in series.values()] == [
        ("SLS", "sls"),
        ("One-shot", "oneshot"),
    ]
    rows = comparison(cell("sls"), cell("sls", setting="a"), cell("sls", setting="b")).rows
    ablation = series_of(rows)
    assert [one.title for one in ablation.values()] == ["SLS", "a", "b"]
    assert len({one.hand for one in ablation.values()}) == 3


def test_the_crop_is_where_networks_differ():
    clean = torch.full((3, 300, 400), 100, dtype=torch.uint8)
    good, bad = clean.clone(), clean + 20  # wrong alike everywhere, where nothing is to be seen
    bad[:, 120:200:2, 240:320] -= 60
    top, left = most_different([good, bad], clean)
    assert 120 - SIDE < top < 200
    assert top <= 120
    assert top + SIDE >= 200
    assert left <= 240
    assert left + SIDE >= 320


def test_a_picture_smaller_than_a_crop_is_shown_whole():
    clean = torch.zeros(3, 40, 50, dtype=torch.uint8)
    assert most_different([clean], clean) == (0, 0)


def test_the_worst_and_the_middle_picture_are_by_the_mean_of_all():
    one = {"a": 30.0, "b": 20.0, "c": 25.0, "exact": None}
    other = {"a": 31.0, "b": 29.0, "c": 20.0, "exact": 40.0}
    assert _worst_and_middle([one, other]) == {"worst": "c", "middle": "b"}
    assert _worst_and_middle([{"a": 1.0}]) == {"worst": "a"}
    assert _worst_and_middle([{"a": None}]) == {}
    assert _worst_and_middle([]) == {}


def test_networks_side_by_side_are_of_the_smallest_budget_that_most_have_met():
    def subject(*arguments, gmacs=1.0, **more):
        made = cell(*arguments, macs={"paper": round(gmacs * 1e9)}, **more)
        return Subject(made, None, None)

    subjects = [
        subject("dense", "1"),
        *(subject(method, "1/4", gmacs=4) for method in ("oneshot", "sls")),
        *(subject(method, "1/8", gmacs=2) for method in ("oneshot", "sls")),
        subject("sls", "1/16", gmacs=1),
    ]
    shown = [(one.place.method, one.place.budget) for one in side_by_side(subjects)]
    assert shown == [("dense", "1"), ("oneshot", "1/8"), ("sls", "1/8")]
    assert side_by_side([]) == []
