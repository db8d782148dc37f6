import json
import re
from html.parser import HTMLParser

import pytest

import scumble
from scumble.compare import Work
from scumble.errors import ComparisonError
from scumble.report import write_report
from scumble.report.gather import gather
from tests.compare.grids import small_plan
from tests.comparison.found import cell, comparison
from tests.training.photos import PRUNE, make_photos

SECTIONS = ("trade-off", "table", "crops", "layers", "progress", "recipe", "environment")
ODD = "<b>\"a\" & 'b'</b> $x^2$ {{ 7*7 }} \u202eödd</script>"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison of a dense network, one-shot and SLS, at two budgets."""
    folder = tmp_path_factory.mktemp("compared")
    photos = make_photos(folder / "photos", count=3)
    start = folder / "start.safetensors"
    scumble.save(scumble.build("edsr-x2", features=16, blocks=1), start)
    changes = [f"prune.{key}={PRUNE[key]}" for key in PRUNE if key not in ("m", "budget", "size")]
    plan = small_plan(
        folder,
        photos,
        methods=["oneshot", "sls"],
        set=[f"network.start={start}", "train.steps=60", *changes],
    )
    found = Work(plan, folder / "out", "cpu").all()
    assert not found.failed
    return folder


@pytest.fixture(scope="module")
def page(compared):
    assert write_report([str(compared / "out")], compared / "page.html", device="cpu") == []
    return (compared / "page.html").read_text()


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def test_every_section_is_there_and_has_something_in_it(page):
    for name in SECTIONS:
        assert f'href="#{name}"' in page
        assert "<h2>" in section(page, name)
        assert 'class="nothing"' not in section(page, name)
    assert section(page, "trade-off").count('role="img"') == 2  # for a desk, and for a phone
    assert section(page, "trade-off").count("<li") == 3  # dense, one-shot, SLS
    assert section(page, "crops").count("<figure") == 2 * (1 + 2 + 3)
    assert section(page, "progress").count("<svg") == 2
    assert section(page, "recipe").count("<details") == 4
    assert "steps: 60" in section(page, "recipe")
    assert f"torch {scumble.__version__}" not in page
    assert f"scumble {scumble.__version__}" in section(page, "environment")


def test_the_page_asks_nothing_of_the_network(page):
    for tag, attributes in Elements(page).found:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name) or ""
            assert value == "" or value.startswith(("data:image/", "#")), (tag, name, value)
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "url(" not in page.replace("url(#", "")
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def test_the_page_is_light(page):
    assert len(page.encode()) < 3_000_000


def test_plots_follow_the_theme_and_no_colour_of_theirs_stands_fast(page):
    plots = re.findall(r'role="img" aria-label="[^"]+">(<svg.*?</svg>)', page, flags=re.DOTALL)
    assert len(plots) >= 5
    for plot in plots:
        assert not re.search(r"(fill|stroke): #", plot)
        assert "var(--ink)" in plot
        assert "<style" not in plot
    for role in ("ground", "ink", "sls", "oneshot"):
        assert page.count(f"--{role}: #") == 3  # light, dark by the system, dark by choice


def test_no_two_parts_of_a_page_have_one_name(page):
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))


def test_plots_lie_beside_the_page_as_svg_and_png(compared, page):
    files = {path.name for path in (compared / "page-plots").iterdir()}
    stems = {name.rpartition(".")[0] for name in files}
    assert files == {f"{stem}{ending}" for stem in stems for ending in (".svg", ".png")}
    assert "trade-off-edsr-x2-photos" in stems
    assert {"progress-edsr-x2-1-2", "progress-edsr-x2-1-4"} <= stems
    assert (compared / "page-plots" / "trade-off-edsr-x2-photos.png").read_bytes()[1:4] == b"PNG"
    assert "<svg" in (compared / "page-plots" / "trade-off-edsr-x2-photos.svg").read_text()


def test_runs_and_files_are_reported_too(compared, tmp_path):
    runs = sorted(str(path) for path in (compared / "out" / "cells").iterdir())
    run = next(path for path in runs if "sls_1-4" in path)
    file = str(compared / "start.safetensors")
    pictures = str(compared / "photos")
    assert write_report([run, file], tmp_path / "p.html", [pictures], "Mine", "cpu") == []
    page = (tmp_path / "p.html").read_text()
    assert "<h1>Mine</h1>" in page
    for name in SECTIONS:
        assert 'class="nothing"' not in section(page, name), name
    assert "Unpruned" in section(page, "table")
    assert "<svg" in section(page, "progress")


def test_a_file_alone_says_what_is_not_there(compared, tmp_path):
    write_report([str(compared / "start.safetensors")], tmp_path / "p.html", device="cpu")
    page = (tmp_path / "p.html").read_text()
    for name in ("crops", "layers", "progress", "recipe", "environment"):
        assert 'class="nothing"' in section(page, name)


def test_a_comparison_without_its_folders_still_has_its_table(compared, tmp_path):
    content = (compared / "out" / "comparison.json").read_text()
    (tmp_path / "alone.json").write_text(content.replace("start.safetensors", "gone.safetensors"))
    write_report([str(tmp_path / "alone.json")], tmp_path / "p.html", device="cpu")
    page = (tmp_path / "p.html").read_text()
    assert "<svg" in section(page, "trade-off")
    assert "One-shot" in section(page, "table")
    assert 'class="nothing"' in section(page, "layers")
    assert "processor" in section(page, "environment")


def test_names_of_others_break_nothing(tmp_path):
    cells = [
        cell("sls", network=ODD, psnr=25.1, scores={ODD: {"psnr": 25.1}}),
        cell("new", network=ODD, label=ODD, setting=ODD, scores={ODD: {"psnr": 25.0}}),
        cell("bad", psnr=None, network=ODD, label="bad", state="failed", told=ODD),
    ]
    start = {"machine": {"cpu": ODD}, "versions": {"torch": ODD}, "command": ODD, "device": ODD}
    cells[0] = cells[0].model_copy(update={"starts": (start,), "name": ODD})
    found = comparison(*cells, data=(ODD,), title=ODD, command=ODD)
    (tmp_path / "comparison.json").write_text(json.dumps(found.to_json()))
    write_report([str(tmp_path)], tmp_path / "p.html", title=ODD, device="cpu")
    page = (tmp_path / "p.html").read_text()
    told = Elements(page)
    assert ODD in told.text
    assert "49" not in told.text.partition("Made")[0].replace("144", "")
    assert not [tag for tag, _ in told.found if tag == "b"]
    assert sum(tag == "script" for tag, _ in told.found) == 1
    for path in (tmp_path / "p-plots").iterdir():
        assert re.fullmatch(r"[\w.-]+", path.name)


def test_two_comparisons_of_one_grid_are_told_apart(compared, tmp_path):
    (tmp_path / "other").mkdir()
    text = (compared / "out" / "comparison.json").read_text()
    (tmp_path / "other" / "comparison.json").write_text(text)
    sources = [str(compared / "out"), str(tmp_path / "other")]
    about = gather(sources)
    assert len(about.found.rows) == 2 * 5
    assert {row.place.setting for row in about.found.rows} == set(sources)
    assert len({subject.cell.name for subject in about.subjects}) == len(about.subjects) == 10
    assert len(about.firsts) == 10


def test_wrong_use_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ComparisonError, match="page.pdf needs to end in .html; name the page so"):
        write_report(["carn-x4"], tmp_path / "page.pdf")
    with pytest.raises(ComparisonError, match="a report needs a comparison, a run or a file, got"):
        write_report([], tmp_path / "page.html")
    with pytest.raises(ComparisonError, match="empty holds neither a comparison nor a network"):
        write_report([str(tmp_path / "empty")], tmp_path / "page.html")
