import json

import pytest
import yaml

from scumble.errors import RecipeError, UnknownNameError
from scumble.recipe import make_recipe, read_recipe, recipe_names, recipe_schema, recipe_text

NETWORKS, BUDGETS = ("edsr", "carn", "rfdn"), {"4th": "1/4", "8th": "1/8", "16th": "1/16"}


@pytest.mark.parametrize("name", recipe_names())
def test_our_recipes_are_valid(name):
    recipe = read_recipe(name)
    assert recipe.network.name in name
    assert recipe_text(name).startswith("# ")


@pytest.mark.parametrize("network", NETWORKS)
def test_the_papers_schedule_is_there_for_every_network_and_budget(network):
    plain = read_recipe(f"{network}-x4")
    assert plain.prune is None
    for name, budget in BUDGETS.items():
        recipe = read_recipe(f"{network}-x4-{name}")
        assert recipe.prune is not None
        assert recipe.prune.budget == budget
        assert (recipe.prune.growth, recipe.prune.look_every) == (1.1, 2000)
        for each in (plain, recipe):
            train = each.train
            assert (train.steps, train.batch, train.lr, train.schedule) == (
                300_000,
                16,
                1e-4,
                "halve",
            )
            assert each.data.patch == 48
            assert f"{recipe.network.name}-short" in recipe_names()


def test_what_is_written_out_reads_back(tmp_path):
    recipe = read_recipe("carn-x4-8th-short")
    (tmp_path / "mine.yaml").write_text(recipe.to_yaml())
    assert read_recipe(tmp_path / "mine.yaml") == recipe
    assert make_recipe(recipe.model_dump(mode="json")) == recipe


def test_changes_reach_their_keys():
    changes = ["train.steps=7", "train.lr=3e-4", "prune.budget=1/16", "data.photos=my photos"]
    recipe = read_recipe("carn-x4-8th", changes)
    assert (recipe.train.steps, recipe.train.lr) == (7, 3e-4)
    assert recipe.prune.budget == "1/16"
    assert recipe.data.photos == "my photos"


def test_smaller_copies_are_smaller():
    assert read_recipe("carn-x4", ["data.smaller=[0.75, 0.5]"]).data.smaller == (0.75, 0.5)
    for wrong in ("[1]", "[0]"):
        with pytest.raises(RecipeError, match=r"data.smaller.0 needs to be (less|greater) than"):
            read_recipe("carn-x4", [f"data.smaller={wrong}"])


def test_a_change_can_add_a_section():
    assert read_recipe("carn-x4", ["prune.budget=0.5"]).prune.budget == 0.5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("prune.bugdet=0.25", "carn-x4: no key named prune.bugdet; did you mean budget?"),
        ("trian.steps=3", "no key named trian; did you mean train?"),
        ("train.zzz=1", "no key named train.zzz; known: steps, batch, lr"),
        ("train.steps=-1", "train.steps needs to be greater than or equal to 1, got -1"),
        ("train.schedule=step", "train.schedule needs to be 'halve' or 'cosine', got 'step'"),
        ("train.steps", "a change is written section.key=value, got 'train.steps'"),
        ("train.steps=[", "not valid YAML"),
        ("train.steps.x=3", "steps is a value, not a section, in 'train.steps.x=3'"),
        ("prune.size=[-1,3]", "prune.size.0 needs to be greater than or equal to 1, got -1"),
        ("prune.budget=2/1", "prune.budget: a share is above 0 and at most 1, got '2/1'"),
    ],
)
def test_faults_are_named(change, sentence):
    with pytest.raises(RecipeError) as refused:
        read_recipe("carn-x4", [change])
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("network: {name: carn-x4}", "data is needed, and not given"),
        (
            "data: {photos: a}\ndata: {photos: b}",
            "a key may appear once in a section, got data twice",
        ),
        ("", "a recipe is sections of keys, got nothing"),
        ("- a\n- b", "a recipe is sections of keys, got a list"),
        ("data: [", "not valid YAML"),
        ("data: !!python/object/apply:os.system [echo]", "not valid YAML"),
    ],
)
def test_a_faulty_file_is_refused_by_name(tmp_path, text, sentence):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as refused:
        read_recipe(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert sentence in str(refused.value)


def test_an_unknown_recipe_offers_the_nearest():
    with pytest.raises(
        UnknownNameError, match="no recipe named 'carn-x4-8'. Did you mean 'carn-x4-8th'"
    ):
        read_recipe("carn-x4-8")
    with pytest.raises(RecipeError, match="cannot be read as a recipe"):
        read_recipe("missing.yaml")


def test_the_schema_knows_every_key():
    schema = json.dumps(recipe_schema())
    for section in yaml.safe_load(read_recipe("carn-x4-8th").to_yaml()).items():
        assert f'"{section[0]}"' in schema
    assert '"look_every"' in schema
