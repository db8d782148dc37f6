import csv
import re

import pytest

from scumble.paper import find, rows

METHODS = {
    "Unpruned": "dense",
    "One-shot": "oneshot",
    "Filter pruning": "filter",
    "SR-STE": "sr-ste",
    "SLS": "sls",
}


def test_the_papers_numbers_are_those_of_its_tables(data):
    file = data.parent / "paper" / "tables.csv"
    if not file.exists():
        pytest.skip(f"needs the paper's tables as data ({file})")
    ours = [row for row in rows() if row.table != "3"]
    theirs = list(csv.DictReader(file.read_text().splitlines()))
    assert len(ours) == len(theirs)
    for row, told in zip(ours, theirs, strict=True):
        assert f"Table {row.table}" == told["table"]
        assert row.network.removesuffix("-x4") == told["model"].lower()
        assert row.network.endswith("-x4") == (told["task"] == "sr_x4")
        assert row.method == METHODS[told["method"]]
        if told["nm"]:
            n, m = map(int, told["nm"].split(":"))
            assert row.m == m
            assert row.budget == f"1/{m // n}"
        assert row.gmacs == float(told["gmacs"])
        assert row.parameters == int(told["params"])
        scores = [score for one in row.scores.values() for score in one.values()]
        assert scores == [float(told[f"metric{n}"]) for n in (1, 2, 3)]


def test_a_budget_without_a_pattern_costs_about_what_it_says():
    """The paper's rows of SLS and of filter pruning name none: they are ours by their order."""
    dense = {(row.table, row.network): row.gmacs for row in rows() if row.method == "dense"}
    unnamed = [row for row in rows() if row.method in ("sls", "filter") and row.gmacs]
    assert len(unnamed) > 30
    for row in unnamed:
        share = row.gmacs / dense[row.table, row.network]
        one, part = map(int, row.budget.split("/"))
        assert 0.8 < share * part / one < 1.4


def test_table_3_is_as_it_stands_in_the_paper(data):
    file = data.parent / "paper" / "sls-paper.tex"
    if not file.exists():
        pytest.skip(f"needs the paper ({file})")
    table = file.read_text().partition(r"\label{tab:abldation}")[0].rpartition(r"\midrule")[2]
    written = re.findall(r"(\d\d\.\d\d)\}* & (?:\S*\{)?(\d\d\.\d\d)", table)
    ours = [row for row in rows() if row.table == "3"]
    by_setting = {row.setting: {} for row in ours}
    for row in ours:
        by_setting[row.setting] |= {row.network: next(iter(row.scores.values()))["psnr"]}
    found = [(one["rfdn-x4"], one["unet"]) for one in by_setting.values()]
    assert found == [(float(rfdn), float(unet)) for rfdn, unet in written]
    assert len(found) == 6


def test_a_row_is_found_by_what_it_is_about():
    assert find("carn-x4", "sls", "1/8", 32, "").score("urban100") == 25.61
    assert find("rfdn-x4", "sls", "1/4", 8, "").gmacs == 10.02
    assert find("carn-x4", "dense", "1", None, "").parameters == 1_110_000
    assert find("unet", "sls", "1/8", 32, "").score("GOPRO", "lpips") == 0.187
    assert find("rfdn-x4", "sls", "1/8", 32, "never ranked anew").score("Urban100") == 25.46
    assert find("carn-x4", "sls", "1/8", 16, "") is None
    assert find("carn-x3", "sls", "1/8", 32, "") is None
    assert find("carn-x4", "sls", "1/8", 32, "").score("Set5") is None
