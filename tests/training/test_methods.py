"""Every method, and every size of group, through the training loop."""

from dataclasses import replace
from pathlib import Path

import pytest

import scumble
from scumble.errors import RecipeError
from scumble.methods import METHODS
from scumble.recipe import PruneSection
from scumble.training.prepare import make_method
from scumble.training.run import FINAL, TrainingRun
from tests.training.photos import PRUNE, make_photos, small_recipe

PRUNING = {
    "sls": PRUNE,
    "oneshot": {"method": "oneshot", "m": 16, "budget": "1/4", "size": (24, 24)},
    "sr-ste": {"method": "sr-ste", "m": 16, "budget": "1/4", "size": (24, 24)},
    "filter": {"method": "filter", "budget": "1/4", "size": (24, 24)},
}
ABLATIONS = {
    "independent scores": {"ordered": False},
    "no annealing": {"anneal": False, "pressure": 1e-6},
    "ranks never renewed": {"rerank_every": 0},
    "ranks renewed at every step": {"rerank_every": 1},
}


@pytest.fixture
def photos(tmp_path) -> Path:
    return make_photos(tmp_path / "photos")


def finish(recipe, folder, stop_at=None) -> Path:
    run = TrainingRun(recipe, folder, device="cpu")
    for event in run.events():
        if event.step == stop_at:
            run.stop()
    return folder / FINAL


def test_every_method_is_tried():
    assert set(PRUNING) == set(METHODS)


@pytest.mark.parametrize("method", PRUNING)
def test_a_stopped_run_ends_with_the_same_bytes(photos, tmp_path, method):
    recipe = small_recipe(photos, PRUNING[method], steps=30, ema=0.9)
    whole = finish(recipe, tmp_path / "whole").read_bytes()
    assert not finish(recipe, tmp_path / "run", stop_at=12).exists()
    assert finish(recipe, tmp_path / "run").read_bytes() == whole


@pytest.mark.parametrize("method", PRUNING)
def test_a_run_costs_what_its_log_says(photos, tmp_path, method):
    recipe = small_recipe(photos, PRUNING[method], steps=30)
    events = list(TrainingRun(recipe, tmp_path / "run", device="cpu").events())
    assert events[-1].reached
    assert 0.15 < events[-1].kept <= 0.25
    pruned = scumble.load(tmp_path / "run" / FINAL)
    cost = scumble.inspect(pruned, (24, 24)).cost
    assert cost.paper_macs / 1e9 == pytest.approx(events[-1].gmacs, abs=1e-4)
    assert scumble.read_info(tmp_path / "run" / FINAL).pruned_by.method == method
    assert events[-1].loss < events[0].loss


@pytest.mark.parametrize("method", ["sr-ste", "filter"])
def test_pruning_starts_from_a_trained_network_or_from_nothing(photos, tmp_path, method):
    dense = finish(small_recipe(photos, steps=2), tmp_path / "dense")
    recipe = small_recipe(photos, PRUNING[method], steps=1, lr=1e-9)
    network = recipe.network.model_copy(update={"start": str(dense)})
    started = recipe.model_copy(update={"network": network})
    found = scumble.load(finish(started, tmp_path / "started")).head.weight
    own = scumble.load(dense).head.weight
    known = {f"{number:.5f}" for number in own.flatten().tolist()}
    assert {f"{number:.5f}" for number in found.flatten().tolist()} <= known
    fresh = scumble.load(finish(recipe, tmp_path / "fresh")).head.weight
    assert not {f"{number:.5f}" for number in fresh.flatten().tolist()} <= known


@pytest.mark.parametrize("kind", ABLATIONS)
def test_ablations_meet_their_budget_and_say_what_they_are(photos, tmp_path, kind):
    recipe = small_recipe(photos, {**PRUNE, **ABLATIONS[kind]}, steps=50)
    info = scumble.read_info(finish(recipe, tmp_path / "run"))
    changed = {key: info.pruned_by.settings[key] for key in ABLATIONS[kind]}
    assert changed == ABLATIONS[kind]


GROUPS = [
    *((m, "sls", "1/2") for m in (4, 8, 16, 32)),
    *((m, "sr-ste", f"2/{m}") for m in (4, 8, 16, 32)),
    *((m, "oneshot", f"1/{m}") for m in (4, 8, 16, 32)),
]


@pytest.mark.parametrize(("m", "method", "budget"), GROUPS)
def test_every_size_of_group_goes_from_recipe_to_file(photos, tmp_path, m, method, budget):
    prune = {**PRUNE, "method": method, "m": m, "budget": budget}
    recipe = small_recipe(photos, prune, steps=40 if method == "sls" else 2)
    arguments = {"features": 32, "blocks": 1}
    network = recipe.network.model_copy(update={"arguments": arguments})
    path = finish(recipe.model_copy(update={"network": network}), tmp_path / "run")
    pruned, patterns = scumble.load(path), scumble.read_info(path).patterns
    assert set(patterns) == {"body.0.conv1", "body.0.conv2", "body.1", "up.0"}
    for name, pattern in patterns.items():
        kept = (pruned.get_submodule(name).weight != 0).unflatten(1, (-1, m)).sum(2)
        assert (int(kept.max()), pattern.m) == (pattern.n, m)
    layers = [layer for layer in scumble.inspect(pruned, (24, 24)).cost.layers if layer.pattern]
    share = sum(layer.macs for layer in layers) / sum(layer.dense_macs for layer in layers)
    asked = scumble.Budget.parse(budget).share
    assert share <= asked if method == "sls" else share == asked


def test_every_setting_of_a_recipe_reaches_its_method():
    section = PruneSection(
        **{"m": 8, "budget": "1/4", "pressure": 2e-9, "growth": 1.7, "min_progress": 0.3},
        **{"progress": "share", "look_every": 11, "anneal": False, "ordered": False},
        **{"rerank_every": 0, "check_every": 7, "ceiling": 1.0, "land": False, "decay": 0.01},
    )
    expected = scumble.SLS(
        **{"m": 8, "budget": "1/4", "pressure": 2e-9, "growth": 1.7, "min_progress": 0.3},
        **{"progress": "share", "look_every": 11, "anneal": False, "ordered": False},
        **{"rerank_every": 0, "check_every": 7, "ceiling": 1.0, "land": False},
    )
    assert make_method(section) == expected
    assert all(
        value != getattr(scumble.SLS(), key)
        for key, value in vars(expected).items()
        if key != "patch"
    )
    refined = section.model_copy(update={"method": "sr-ste"})
    assert make_method(refined) == scumble.SrSte("2:8", decay=0.01)
    assert make_method(section.model_copy(update={"method": "filter"})) == scumble.Filter("1/4")
    assert replace(make_method(refined), decay=2e-4) == scumble.SrSte("2:8")


@pytest.mark.parametrize("method", ["oneshot", "sr-ste"])
def test_a_budget_of_no_whole_n_is_refused(method):
    section = PruneSection(method=method, m=4, budget="1/8")
    with pytest.raises(RecipeError, match=f"{method} keeps the same N of 4 .* such as 1/2"):
        make_method(section)
