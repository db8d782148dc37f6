import json
import re

import pytest
import torch
from typer.testing import CliRunner

import scumble.zoo
from scumble import read_info
from scumble.cli.app import app
from scumble.evaluate import evaluate
from tests.cli.test_command_line import run
from tests.training.photos import PRUNE, make_photos, small_recipe


def test_train_goes_from_a_recipe_to_a_network(tmp_path):
    photos, file = make_photos(tmp_path / "photos"), tmp_path / "mine.yaml"
    file.write_text(small_recipe(photos).to_yaml())
    arguments = ("train", str(file), "-o", str(tmp_path / "run"), "--set", "train.steps=6")
    out = run(*arguments).stdout
    assert f"{tmp_path / 'run' / 'network.safetensors'}: loss " in out
    assert read_info(tmp_path / "run" / "network.safetensors").recipe["train"]["steps"] == 6
    assert "is done" in run(*arguments).stdout
    other = run("train", str(file), "-o", str(tmp_path / "run"), expect=2)
    assert "belongs to a run of another recipe (train.steps: 6 then, 40 now)" in other.stderr


def test_prune_makes_a_trained_network_small(tmp_path):
    photos, file = make_photos(tmp_path / "photos"), tmp_path / "mine.yaml"
    file.write_text(small_recipe(photos, steps=2).to_yaml())
    run("train", str(file), "-o", str(tmp_path / "dense"))
    dense = str(tmp_path / "dense" / "network.safetensors")
    changes = [f"prune.{key}={PRUNE[key]}" for key in ("pressure", "scores_lr", "growth")]
    changes += ["data.patch=12", "data.validation=0", "train.batch=2", "train.lr=1e-3"]
    options = [part for change in changes for part in ("--set", change)]
    run(
        *("prune", dense, "--data", str(photos), "-o", str(tmp_path / "pruned")),
        *("--budget", "1/4", "-m", "16", "--steps", "60", *options),
    )
    info = read_info(tmp_path / "pruned" / "network.safetensors")
    assert info.pruned_by.method == "sls"
    found = json.loads(
        run(
            "evaluate",
            "-n",
            str(tmp_path / "pruned" / "network.safetensors"),
            "--data",
            str(photos),
            "--json",
        ).stdout
    )
    assert found["protocol"] == "sr-y-x2"
    wrong = run(
        "prune",
        dense,
        "--data",
        str(photos),
        "-o",
        str(tmp_path / "x"),
        "--method",
        "slss",
        expect=2,
    )
    assert "no method named 'slss'. Did you mean 'sls'" in wrong.stderr


def test_weights_of_others_are_scored_and_pruned_as_the_network_that_is_named(tmp_path):
    photos, theirs = str(make_photos(tmp_path / "photos")), str(tmp_path / "theirs.pth")
    torch.save(scumble.build("edsr-x2", features=16, blocks=1).state_dict(), theirs)
    named = ("--network", "edsr-x2,features=16,blocks=1")
    found = run("evaluate", "-n", theirs, "--data", photos, "--json", *named).stdout
    assert json.loads(found)["protocol"] == "sr-y-x2"
    pruning = ("prune", theirs, "--data", photos, "-o", str(tmp_path / "run"), "--steps", "2")
    small = ("data.patch=12", "data.validation=0", "train.batch=2")
    changes = [part for change in small for part in ("--set", change)]
    oneshot = ("--method", "oneshot", "-m", "16", *changes)
    run(*pruning, *oneshot, *named)
    info = read_info(tmp_path / "run" / "network.safetensors")
    assert {str(pattern) for pattern in info.patterns.values()} == {"2:16"}
    wrong = run(*pruning, *oneshot, expect=2).stderr
    assert "does not say which network it holds; name it (--network, or network in" in wrong


@pytest.mark.parametrize(
    ("method", "options", "recorded"),
    [
        ("oneshot", ("-m", "8"), {"pattern": "2:8"}),
        (
            "sr-ste",
            ("--group", "4", "--set", "prune.decay=0.01"),
            {"pattern": "1:4", "decay": 0.01},
        ),
        ("filter", (), {"budget": "1/4"}),
    ],
)
def test_prune_knows_every_method(tmp_path, method, options, recorded):
    photos, dense = make_photos(tmp_path / "photos"), tmp_path / "dense.safetensors"
    scumble.save(scumble.build("edsr-x2", features=16, blocks=1), dense)
    changes = ["data.patch=12", "data.validation=0", "train.batch=2", "prune.size=[24,24]"]
    sets = [part for change in changes for part in ("--set", change)]
    run(
        *("prune", str(dense), "--data", str(photos), "-o", str(tmp_path / "run")),
        *("--method", method, "--budget", "1/4", "--steps", "3", *sets, *options),
    )
    pruned = str(tmp_path / "run" / "network.safetensors")
    assert read_info(pruned).pruned_by.method == method
    assert read_info(pruned).pruned_by.settings == recorded
    costs = [scumble.inspect(scumble.load(file), (24, 24)).cost for file in (pruned, dense)]
    assert costs[0].paper_macs < 0.45 * costs[1].paper_macs
    assert evaluate(pruned, photos).evaluation.protocol.name == "sr-y-x2"


def test_recipes_are_listed_shown_and_checked(tmp_path):
    assert "carn-x4-8th-short" in run("recipe", "list").stdout
    shown = run("recipe", "show", "carn-x4-8th").stdout
    (tmp_path / "mine.yaml").write_text(shown)
    assert "budget: 1/8" in run("recipe", "check", str(tmp_path / "mine.yaml")).stdout
    assert json.loads(run("recipe", "schema").stdout)["title"] == "Recipe"
    assert (
        "did you mean budget?"
        in run("recipe", "check", "carn-x4-8th", "--set", "prune.bugdet=1", expect=2).stderr
    )


def test_evaluate_tells_a_partial_failure_by_its_exit_code(tmp_path):
    photos = make_photos(tmp_path / "photos", count=2)
    (photos / "bad.png").write_bytes(b"no picture")
    done = run(
        "evaluate", "-n", "bicubic", "--data", str(photos), "--protocol", "sr-y-x2", expect=1
    )
    assert "mean of 2" in done.stdout
    assert "bad.png" in done.stdout
    assert (
        f"there is no folder {tmp_path / 'none'}"
        in run("evaluate", "-n", "bicubic", "--data", str(tmp_path / "none"), expect=2).stderr
    )


def test_evaluate_without_any_usable_picture_or_device_is_wrong_use(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    arguments = ("evaluate", "-n", "bicubic", "--data", str(tmp_path))
    done = run(*arguments, expect=2)
    assert f"scumble: none of 1 pictures in {tmp_path} could be scored: " in done.stderr
    assert "bad.png" in done.stderr
    assert not done.stdout
    assert "got 'tpu'" in run(*arguments, "--device", "tpu", expect=2).stderr


def test_evaluate_shows_no_bar_where_there_is_no_terminal(tmp_path):
    photos = make_photos(tmp_path / "photos", count=1)
    done = run("evaluate", "-n", "bicubic", "--data", str(photos), "--protocol", "sr-y-x2")
    assert not done.stderr


def test_names_that_are_no_file_lead_to_the_zoo(tmp_path):
    wrong = run("evaluate", "-n", "crn-x4", "--data", str(tmp_path), expect=2)
    assert "there is no file crn-x4, and no network of that name in the zoo" in wrong.stderr
    assert "did you mean carn-x4?" in wrong.stderr


def test_zoo_tells_how_large_the_files_are():
    assert re.match(r"carn-x4, \d+\.\d MB: ", run("zoo").stdout)


def test_groups_that_fit_no_layer_are_refused_in_words_of_the_command_line():
    wrong = run("inspect", "carn", "--pattern", "3:100", expect=2).stderr
    assert "found none; choose a smaller m, or pad the groups (pad_groups)" in wrong
    assert "where=" not in wrong


def test_zoo_tells_where_a_network_comes_from(monkeypatch):
    entry = scumble.zoo.manifest()["carn-x4"]
    known = {**entry, "started_from": {**entry, "trained": "for a week"}, "teacher": "another"}
    monkeypatch.setattr("scumble.zoo.manifest", lambda: {"carn-x4": known})
    told = CliRunner().invoke(app, ["zoo"]).stdout
    assert "  started from: for a week\n  taught by: another\n" in told
