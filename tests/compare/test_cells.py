import re

import pytest
import yaml

from scumble.compare import grid_names, make_plan
from scumble.errors import RecipeError, UnknownNameError
from tests.compare.grids import BASE, write_grid


def plan_of(tmp_path, text, **more):
    (tmp_path / "grid.yaml").write_text(text)
    return make_plan([str(tmp_path / "grid.yaml")], **more)


def refusal(tmp_path, text, **more):
    with pytest.raises((RecipeError, UnknownNameError)) as caught:
        plan_of(tmp_path, text, **more)
    return str(caught.value).removeprefix(f"{tmp_path / 'grid.yaml'}: ")


@pytest.mark.parametrize("name", grid_names())
def test_our_grids_make_sense_whatever_methods_there_are(name):
    plan = make_plan([name], ["data.photos=photos"])
    assert plan.title == name
    assert len({cell.name for cell in plan.cells}) == len(plan.cells)


def test_table_2_has_every_method_at_every_budget():
    cells = make_plan(["table2-carn-x4"]).cells
    places = [(c.place.method, c.place.label, c.place.budget) for c in cells]
    assert places[0] == ("dense", "dense", "1")
    assert len(places) == 1 + 5 * 3
    labels = ["oneshot", "sr-ste", "SR-STE from the trained network", "filter", "sls"]
    assert [label for _, label, budget in places if budget == "1/8"] == labels
    scratch, trained = (next(c for c in cells if c.place.label == one) for one in labels[1:3])
    assert scratch.recipe.network.start is None
    assert trained.recipe.network.start == "carn-x4"
    assert {c.recipe.train.steps for c in cells if c.recipe} == {60_000}


def test_cells_are_the_product_of_the_axes_in_the_order_of_the_table(tmp_path):
    plan = plan_of(
        tmp_path,
        "base: carn-x4-8th\nmethods: [oneshot, sls]\nbudgets: [1/4, 12.5%]\nseeds: [0, 3]",
    )
    assert [cell.name for cell in plan.cells] == [
        "carn-x4_dense",
        "carn-x4_oneshot_1-4_seed0",
        "carn-x4_oneshot_1-4_seed3",
        "carn-x4_sls_1-4_seed0",
        "carn-x4_sls_1-4_seed3",
        "carn-x4_oneshot_1-8_seed0",
        "carn-x4_oneshot_1-8_seed3",
        "carn-x4_sls_1-8_seed0",
        "carn-x4_sls_1-8_seed3",
    ]
    last = plan.cells[-1]
    assert (last.recipe.train.seed, last.recipe.prune.method) == (3, "sls")
    assert (last.place.m, last.place.budget) == (32, "1/8")
    assert plan.cells[0].start == "carn-x4"


def test_changes_stand_in_the_order_of_the_axes(tmp_path):
    text = """
base: carn-x4-8th
set: [train.lr=1, train.batch=1, train.clip=1]
methods: [{name: sls, set: [train.batch=3, prune.growth=3]}]
settings: [{name: "", set: []}, {name: quick, set: [prune.growth=4, network.start=null]}]
"""
    plain, quick = plan_of(tmp_path, text, changes=["train.clip=2", "train.batch=2"]).cells[1:]
    assert (plain.recipe.train.lr, plain.recipe.train.batch, plain.recipe.train.clip) == (1, 3, 2)
    assert (plain.recipe.prune.growth, quick.recipe.prune.growth) == (3, 4)
    assert (plain.recipe.network.start, quick.recipe.network.start) == ("carn-x4", None)
    assert (plain.place.setting, quick.place.setting) == ("", "quick")


def test_another_network_starts_from_the_zoo_and_the_base_from_its_own(tmp_path):
    text = """
base: {network: {name: carn-x4, start: mine.safetensors}, data: {photos: p}}
networks: [carn-x4, rfdn-x4, {name: edsr-x4, start: null}, {name: edsr-x2, start: e.safetensors}]
"""
    cells = plan_of(tmp_path, text).cells
    starts = {cell.place.network: cell.recipe.network.start for cell in cells if cell.recipe}
    assert starts == {
        "carn-x4": "mine.safetensors",
        "rfdn-x4": "rfdn-x4",
        "edsr-x4": None,
        "edsr-x2": "e.safetensors",
    }
    dense = {cell.place.network: cell.start for cell in cells if not cell.recipe}
    assert dense == {name: start for name, start in starts.items() if start}


def test_dense_networks_can_be_left_out(tmp_path):
    assert len(plan_of(tmp_path, "base: carn-x4-8th\ndense: false").cells) == 1


def test_recipes_are_cells_too(tmp_path):
    plan = make_plan(["carn-x4", "carn-x4-8th", "carn-x4-8th-short"], data=["x/Set14", "x/B100"])
    assert [cell.name for cell in plan.cells] == [
        "carn-x4_seed0",
        "carn-x4-8th_seed0",
        "carn-x4-8th-short_seed0",
    ]
    assert [cell.place.method for cell in plan.cells] == ["dense", "sls", "sls"]
    assert [cell.place.setting for cell in plan.cells] == [
        "carn-x4",
        "carn-x4-8th",
        "carn-x4-8th-short",
    ]
    assert [entry.label for entry in plan.score] == ["Set14", "B100"]


def test_a_base_lies_beside_its_grid(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    cell = plan_of(tmp_path, "base: base.yaml").cells[0]
    assert cell.recipe.train.steps == 12


def test_folders_given_on_the_command_line_take_the_place_of_the_grids(tmp_path):
    text = "base: carn-x4-8th\nscore: [a/Set5, {data: b, name: mine, protocol: sr-y-x4}]"
    assert [entry.label for entry in plan_of(tmp_path, text).score] == ["Set5", "mine"]
    assert [entry.label for entry in plan_of(tmp_path, text, data=["c/B100"]).score] == ["B100"]


def test_a_cell_whose_recipe_makes_no_sense_is_refused_in_its_place(tmp_path):
    text = "base: carn-x4-8th\nsettings: [{name: ''}, {name: bad, set: [prune.grwth=2]}]"
    good, bad = plan_of(tmp_path, text).cells[1:]
    assert good.refusal is None
    assert bad.recipe is None
    assert bad.refusal == "no key named prune.grwth; did you mean growth?"


REFUSALS = [
    ("base: carn-x4-8th\nmethod: [sls]", "no key named method; did you mean methods?"),
    ("methods: [sls]", "base is needed, and not given"),
    (
        "base: carn-x4-8th\nmethods: [{name: sls, lable: x}]",
        "no key named methods.0.lable; did you mean label?",
    ),
    (
        "base: carn-x4-8th\nbudgets: [1/0]",
        "budgets.0.budget: a share is above 0 and at most 1, got '1/0'",
    ),
    ("base: carn-x4-8th\nseeds: [-1]", "seeds.0 needs to be greater than or equal to 0, got -1"),
    (
        "base: carn-x4-8th\nset: [prune.growth]",
        "no cell can be made: a change is written section.key=value, got 'prune.growth'",
    ),
    (
        "base: carn-x4-8th\nset: [prune.bugdet=1]",
        "no cell can be made: no key named prune.bugdet; did you mean budget?",
    ),
    (
        "base: carn-x4-8th\nmethods: [sls, {name: sls, set: [prune.m=16]}]",
        "two cells are called carn-x4_sls_1-8_seed0; "
        "give their methods or settings different labels",
    ),
    (
        "base: carn-x4-8th\nscore: [a/Set5, b/Set5]",
        "two sets of pictures are called Set5; give one another name",
    ),
    (
        "base: carn-x4-8ht",
        "no recipe named 'carn-x4-8ht'. Did you mean 'carn-x4-8th' or ",
    ),
    ("base: {network: 3}", "network needs to be a section of keys, got 3"),
    ("base: {prune: {budget: x}}", "budgets.0.budget: a budget is a share such as"),
    ("- base", "a grid or recipe is sections of keys, got a list"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSALS)
def test_grids_that_make_no_sense_are_refused_in_words(tmp_path, text, sentence):
    assert refusal(tmp_path, text).startswith(sentence)


def test_one_grid_or_some_recipes(tmp_path):
    write_grid(tmp_path / "grid.yaml", tmp_path)
    sources = [str(tmp_path / "grid.yaml"), "carn-x4"]
    with pytest.raises(RecipeError, match="compare takes one grid or some recipes, got "):
        make_plan(sources)
    with pytest.raises(UnknownNameError, match="no grid or recipe named 'table2'. Did you mean "):
        make_plan(["table2"])
    with pytest.raises(RecipeError, match="none.yaml cannot be read as a grid or recipe: No such"):
        make_plan([str(tmp_path / "none.yaml")])


PRESSURES = """
base: carn-x4-8th
settings: [{name: ""}, {name: constant, pressure_of: "OTHER", set: [prune.anneal=false]}]
seeds: [0, 1]
"""


def test_a_setting_may_begin_with_the_last_pressure_of_another(tmp_path):
    cells = plan_of(tmp_path, PRESSURES.replace("OTHER", "")).cells[1:]
    assert {cell.name: cell.pressure_of for cell in cells} == {
        "carn-x4_sls_1-8_seed0": None,
        "carn-x4_sls_1-8_seed1": None,
        "carn-x4_sls_1-8_constant_seed0": "carn-x4_sls_1-8_seed0",
        "carn-x4_sls_1-8_constant_seed1": "carn-x4_sls_1-8_seed1",
    }


@pytest.mark.parametrize("other", ["constant", "nobody"])
def test_a_pressure_comes_from_another_setting_that_finds_its_own(tmp_path, other):
    told = (
        f"pressure_of of the setting 'constant' needs another setting, one without pressure_of, "
        f"got {other!r}; known: ''"
    )
    with pytest.raises(RecipeError, match=f"^{re.escape(told)}$"):
        plan_of(tmp_path, PRESSURES.replace("OTHER", other))


def test_a_pressure_is_for_methods_that_have_one(tmp_path):
    text = PRESSURES.replace("OTHER", "") + "methods: [sls, oneshot]"
    cells = {cell.name: cell for cell in plan_of(tmp_path, text).cells}
    refused = cells["carn-x4_oneshot_1-8_constant_seed0"]
    assert refused.refusal == "pressure_of is for sls, which has a pressure, not for oneshot"
    assert cells["carn-x4_sls_1-8_constant_seed0"].pressure_of == "carn-x4_sls_1-8_seed0"
