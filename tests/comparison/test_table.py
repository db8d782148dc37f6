import json

import pytest

from scumble.comparison import Comparison, make_table, markdown
from scumble.errors import RecipeError
from tests.comparison.found import cell, comparison


def lines(found):
    return [[str(entry) for entry in line.entries] for line in make_table(found).lines]


def test_the_table_has_the_papers_form_and_its_numbers():
    found = comparison(
        cell("dense", "1", 25.43, m=None),
        cell("oneshot", psnr=24.5),
        cell("sls", psnr=25.1),
    )
    assert make_table(found).head == (
        *("network", "method", "budget", "GMACs", "parameters"),
        *("Urban100 PSNR", "Urban100 SSIM"),
    )
    costs = ["13.18 (13.02)", "144,195 (140,240)"]
    dense = ["carn-x4", "Unpruned", "", "13.18 (91.22)", "144,195 (1,110,000)"]
    assert lines(found) == [
        [*dense, "25.43 (25.82)", "0.6358"],
        ["carn-x4", "One-shot", "1/8", *costs, "24.50 (25.36)", "0.6125"],
        ["carn-x4", "SLS", "1/8", "13.18 (13.02)", "144,195 (140,270)", "25.10 (25.61)", "0.6275"],
    ]


def test_the_best_of_a_budget_is_marked_and_the_dense_one_is_no_rival():
    found = comparison(
        cell("dense", "1", 30),
        cell("oneshot", psnr=24.5),
        cell("sls", psnr=25.1),
        cell("oneshot", "1/4", 27),
    )
    marked = [[entry.best for entry in line.entries[5:]] for line in make_table(found).lines]
    assert marked == [[False, False], [False, False], [True, True], [False, False]]
    assert [line.begins for line in make_table(found).lines] == [True, True, False, True]


def test_seeds_are_one_row_with_mean_and_spread():
    found = comparison(*(cell("sls", psnr=p, seed=s) for s, p in enumerate((25.0, 25.2, 25.4))))
    (row,) = found.rows
    assert row.figure("Urban100").mean == pytest.approx(25.2)
    assert row.figure("Urban100").spread == pytest.approx(0.2)
    assert lines(found)[0][5] == "25.20 ±0.20 (25.61)"
    assert row.to_json()["seeds"] == [0, 1, 2]
    assert row.to_json()["scores"]["Urban100"]["psnr"]["values"] == [25.0, 25.2, 25.4]


def test_what_failed_stands_in_its_place_with_its_reason():
    found = comparison(
        cell("oneshot", psnr=24.5),
        cell("sls", psnr=None, state="failed", told="the loss became nan"),
        cell("filter", psnr=None),
        cell("sr-ste", psnr=None, state="working", told="here, process 7"),
    )
    assert [line[5] for line in lines(found)] == [
        "24.50 (25.36)",
        "failed (25.61)",
        "waiting (25.36)",
        "working (25.43)",
    ]
    told = markdown(found)
    assert "- carn-x4_sls_1-8_0 failed: the loss became nan\n" in told
    assert "- carn-x4_filter_1-8_0 is not begun\n" in told
    assert "- carn-x4_sr-ste_1-8_0 is at work: here, process 7\n" in told


def test_a_seed_that_failed_is_not_in_the_mean_and_is_named():
    found = comparison(
        cell("sls", psnr=25.0),
        cell("sls", psnr=None, seed=1, state="failed", told="no memory"),
    )
    assert lines(found)[0][5] == "25.00 (25.61)"
    assert "carn-x4_sls_1-8_1 failed: no memory" in markdown(found)


def test_a_label_that_is_not_the_methods_has_no_row_in_the_paper():
    found = comparison(cell("sr-ste", psnr=25, label="SR-STE from the trained network"))
    assert lines(found)[0][:4] == ["carn-x4", "SR-STE from the trained network", "1/8", "13.18"]
    assert found.rows[0].paper is None


def test_settings_have_a_column_where_there_are_any():
    cells = (cell("sls"), cell("sls", setting="never ranked anew", network="rfdn-x4"))
    table = make_table(comparison(*cells))
    assert table.head[3] == "setting"
    assert [line.entries[3].ours for line in table.lines] == ["", "never ranked anew"]
    assert str(table.lines[1].entries[6]) == "25.00 (25.46)"


def test_markdown_holds_names_that_would_break_a_table():
    found = comparison(cell("sls", label="a|b\nc"), title="x\ny")
    told = markdown(found)
    assert told.startswith("# x y\n")
    assert "| carn-x4 | a\\|b c | 1/8 |" in told
    assert "| --- | --- | --- | ---: | ---: | ---: | ---: |" in told


def test_a_comparison_comes_back_from_its_file(tmp_path):
    found = comparison(cell("sls"), cell("oneshot", psnr=None))
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(found.to_json()))
    assert Comparison.read(file) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "its format is not 'scumble comparison 1'"),
        ('{"format": "scumble comparison 9"}', "its format is not 'scumble comparison 1'"),
        ('{"format": "scumble comparison 1"}', "title is needed, and not given"),
    ],
)
def test_a_file_that_is_no_comparison_is_refused(tmp_path, text, reason):
    file = tmp_path / "comparison.json"
    file.write_text(text)
    with pytest.raises(RecipeError, match=f"comparison.json is not a comparison: {reason}"):
        Comparison.read(file)
    with pytest.raises(RecipeError, match="none.json cannot be read: No such file"):
        Comparison.read(tmp_path / "none.json")
