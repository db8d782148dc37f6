import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image

import scumble
from scumble.compare import Told, Work, look, make_plan, standing, work
from scumble.compare.cell_folder import folders_of, training_seconds
from scumble.compare.claims import take
from scumble.compare.estimate import estimates
from scumble.compare.standing import write
from scumble.comparison import Comparison
from scumble.data.store import PictureStore
from scumble.errors import ComparisonError, UnknownNameError
from scumble.run_folder import read_log
from scumble.training.run import TrainingRun
from tests.compare.grids import small_plan, write_grid
from tests.training.photos import PRUNE, make_photos


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", count=3)


def states(found):
    return {cell.name: cell.state for cell in found.cells}


def networks(root):
    return {
        path.parent.name: path.read_bytes() for path in root.glob("cells/*/network.safetensors")
    }


def test_a_comparison_goes_from_a_grid_to_a_table(tmp_path, photos):
    told = []
    plan = small_plan(tmp_path, photos)
    found = Work(plan, tmp_path / "out", "cpu", told.append).all()
    assert set(states(found).values()) == {"done"}
    assert [row.place.budget for row in found.rows] == ["1/2", "1/4"]
    half, quarter = found.rows
    assert half.gmacs > quarter.gmacs
    assert half.parameters > quarter.parameters
    cell = found.cells[0]
    assert set(cell.scores) == {"photos"}
    assert set(cell.scores["photos"]) == {"psnr", "ssim"}
    assert len(cell.pictures["photos"]) == 3
    assert cell.starts[0]["device"] == "cpu"
    assert cell.seconds > 0
    assert Comparison.read(tmp_path / "out" / "comparison.json") == found
    assert "One-shot" in (tmp_path / "out" / "comparison.md").read_text()
    doing = [what.doing for what in told if what.cell == cell.name]
    assert doing == ["training"] * 9 + ["scoring on photos"] * 3 + ["done"]


def test_what_is_done_is_not_done_again(tmp_path, photos, monkeypatch):
    first = Work(small_plan(tmp_path, photos), tmp_path / "out", "cpu").all()

    def never(*_, **__):
        raise AssertionError("this was done already")

    monkeypatch.setattr("scumble.compare.work.TrainingRun", never)
    monkeypatch.setattr("scumble.compare.work.evaluate", never)
    again = Work(small_plan(tmp_path, photos), tmp_path / "out", "cpu").all()
    assert again.cells == first.cells


def test_more_cells_and_more_pictures_are_added_to_what_is_there(tmp_path, photos, monkeypatch):
    Work(small_plan(tmp_path, photos), tmp_path / "out", "cpu").all()
    trained, scored = [], []
    train, score = TrainingRun.events, work.evaluate

    def events(run):
        trained.append(run.folder.name)
        return train(run)

    def counted(network, data, *more, **named):
        scored.append(data)
        return score(network, data, *more, **named)

    monkeypatch.setattr(TrainingRun, "events", events)
    monkeypatch.setattr(work, "evaluate", counted)
    other = make_photos(tmp_path / "others", count=2)
    grid = write_grid(tmp_path / "grid.yaml", photos, budgets=["1/2", "1/4", "1/8"])
    plan = make_plan([str(grid)], data=[str(photos), str(other)])
    found = Work(plan, tmp_path / "out", "cpu").all()
    assert trained == ["edsr-x2_oneshot_1-8_seed0"]
    assert sorted(scored) == sorted([str(other)] * 3 + [str(photos)])
    assert found.data == ("photos", "others")


def test_other_pictures_under_the_same_name_are_scored_anew(tmp_path, photos):
    pictures = make_photos(tmp_path / "test", count=2)
    plan = make_plan([str(write_grid(tmp_path / "grid.yaml", photos))], data=[str(pictures)])
    before = Work(plan, tmp_path / "out", "cpu").all().cells[0].pictures["test"]
    noise = np.random.default_rng(9).integers(0, 256, (48, 56, 3), dtype=np.uint8)
    Image.fromarray(noise).save(pictures / "photo0.png")
    assert states(look(plan, tmp_path / "out"))["edsr-x2_oneshot_1-2_seed0"] == "stopped"
    after = Work(plan, tmp_path / "out", "cpu").all().cells[0].pictures["test"]
    assert before["photo0.png"] > after["photo0.png"]
    assert before["photo1.png"] == after["photo1.png"]


def test_a_cell_that_fails_is_told_in_its_place_and_the_others_go_on(tmp_path, photos):
    methods = [{"name": "nonsense"}, "oneshot"]
    settings = [{"name": ""}, {"name": "bad", "set": ["prune.grwth=2"]}]
    plan = small_plan(tmp_path, photos, methods=methods, settings=settings, budgets=["1/4"])
    found = Work(plan, tmp_path / "out", "cpu").all()
    told = {cell.place.method + cell.place.setting: (cell.state, cell.told) for cell in found.cells}
    assert told["oneshot"] == ("done", "")
    assert told["nonsense"][0] == "failed"
    assert told["nonsense"][1].startswith("no method named 'nonsense'.")
    assert told["oneshotbad"] == ("failed", "no key named prune.grwth; did you mean growth?")
    assert "| edsr-x2 | nonsense | 1/4 |  |  |  | failed | failed |" in (
        tmp_path / "out" / "comparison.md"
    ).read_text().replace("||", "|  |")


def test_a_cell_that_failed_is_tried_again_by_the_next_launch_only(tmp_path, photos, monkeypatch):
    plan, tries = small_plan(tmp_path, photos, budgets=["1/4"]), []
    train = TrainingRun.events

    def broken(run):
        tries.append(run.folder.name)
        if len(tries) < 3:
            raise torch.OutOfMemoryError("tried to allocate 9 GiB")
        return train(run)

    monkeypatch.setattr(TrainingRun, "events", broken)
    found = Work(plan, tmp_path / "out", "cpu").all()
    (cell,) = found.cells
    assert (cell.state, cell.told) == ("failed", "OutOfMemoryError: tried to allocate 9 GiB")
    failure = json.loads((tmp_path / "out/cells" / cell.name / "failure.json").read_text())
    assert "in broken" in failure["traceback"]
    assert len(tries) == 1
    Work(plan, tmp_path / "out", "cpu").all()
    assert len(tries) == 2
    # One that was begun before the failure leaves it alone: it happened beside it.
    early = Work(plan, tmp_path / "out", "cpu")
    (folder,) = folders_of(plan, tmp_path / "out")
    assert not early._try(folder, {"id": "another"})
    assert early._try(folder, folder.failure())
    assert len(tries) == 3
    assert states(look(plan, tmp_path / "out")) == {cell.name: "done"}


def test_what_was_stopped_goes_on_where_it_was(tmp_path, photos):
    plan = small_plan(tmp_path, photos)
    whole = networks_of(plan, tmp_path / "whole")
    at_work = Work(plan, tmp_path / "out", "cpu")

    def stop(what: Told) -> None:
        if what.doing == "training" and what.now == 4:
            at_work.stop()

    at_work.told = stop
    found = at_work.all()
    assert list(states(found).values()) == ["stopped", "waiting"]
    assert found.cells[0].told == "after step 5 of 12"
    assert networks_of(plan, tmp_path / "out") == whole


def networks_of(plan, root):
    found = Work(plan, root, "cpu").all()
    assert set(states(found).values()) == {"done"}
    return networks(root)


def test_a_stop_while_scoring_keeps_what_is_trained(tmp_path, photos):
    plan = small_plan(tmp_path, photos, budgets=["1/4"])
    at_work = Work(plan, tmp_path / "out", "cpu")
    at_work.told = lambda what: at_work.stop() if what.doing.startswith("scoring") else None
    (cell,) = at_work.all().cells
    assert (cell.state, cell.told) == ("stopped", "trained, not scored")


def test_another_recipe_does_not_take_the_place_of_the_first(tmp_path, photos):
    Work(small_plan(tmp_path, photos, budgets=["1/4"]), tmp_path / "out", "cpu").all()
    before = networks(tmp_path / "out")
    other = small_plan(tmp_path, photos, budgets=["1/4"], set=["train.lr=2e-3"])
    (cell,) = Work(other, tmp_path / "out", "cpu").all().cells
    assert cell.state == "failed"
    assert "was made by another recipe; give another folder, or the same recipe" in cell.told
    assert networks(tmp_path / "out") == before
    again = Work(small_plan(tmp_path, photos, budgets=["1/4"]), tmp_path / "out", "cpu").all()
    assert again.cells[0].state == "done"


def test_a_cell_that_another_process_has_is_left_to_it(tmp_path, photos):
    plan = small_plan(tmp_path, photos)
    name = plan.cells[0].name
    with take(tmp_path / "out" / "cells" / name):
        found = Work(plan, tmp_path / "out", "cpu").all()
        assert list(states(found).values()) == ["working", "done"]
        assert f"process {os.getpid()}" in found.cells[0].told
    assert set(states(Work(plan, tmp_path / "out", "cpu").all()).values()) == {"done"}


def test_seeds_stand_in_one_row(tmp_path, photos):
    plan = small_plan(tmp_path, photos, budgets=["1/4"], seeds=[0, 1])
    (row,) = Work(plan, tmp_path / "out", "cpu").all().rows
    figure = row.figure("photos")
    assert len(figure.values) == 2
    assert figure.spread > 0
    assert "±" in (tmp_path / "out" / "comparison.md").read_text()


def test_a_dense_network_is_scored_and_not_trained(tmp_path, photos):
    start = tmp_path / "start.safetensors"
    scumble.save(scumble.build("edsr-x2", features=16, blocks=1), start)
    grid = {"budgets": ["1/4"], "set": [f"network.start={start}"]}
    dense, pruned = Work(small_plan(tmp_path, photos, **grid), tmp_path / "out", "cpu").all().rows
    assert dense.place.method == "dense"
    assert dense.gmacs > pruned.gmacs
    assert dense.figure("photos") is not None


def test_pictures_without_a_score_are_named(tmp_path, photos):
    pictures = make_photos(tmp_path / "test", count=2)
    (pictures / "bad.png").write_bytes(b"no picture")
    plan = make_plan([str(write_grid(tmp_path / "grid.yaml", photos))], data=[str(pictures)])
    found = Work(plan, tmp_path / "out", "cpu").all()
    assert all(len(cell.warnings) == 1 for cell in found.cells)
    assert "bad.png" in found.cells[0].warnings[0]


def test_the_best_by_validation_needs_one(tmp_path):
    photos = make_photos(tmp_path / "photos")
    plan = small_plan(tmp_path, photos, budgets=["1/4"], best=True)
    (cell,) = Work(plan, tmp_path / "out", "cpu").all().cells
    assert "has no best network by validation; validate more often" in cell.told
    validated = ["data.validation=0.4", "watch.validate_every=4"]
    plan = small_plan(tmp_path, photos, budgets=["1/4"], best=True, set=validated)
    (cell,) = Work(plan, tmp_path / "best", "cpu").all().cells
    assert (cell.state, cell.file) == ("done", f"cells/{cell.name}/best.safetensors")


def test_wrong_use_is_refused_before_anything_is_done(tmp_path, photos, monkeypatch):
    plan = small_plan(tmp_path, photos)
    grid = str(write_grid(tmp_path / "grid.yaml", photos))
    with pytest.raises(ComparisonError, match="compare needs pictures to score on, got none"):
        Work(make_plan([grid]), tmp_path / "out")
    grid = str(write_grid(tmp_path / "g.yaml", photos, score=[{"data": "x", "protocol": "y"}]))
    with pytest.raises(UnknownNameError, match="no protocol named 'y'"):
        Work(make_plan([grid]), tmp_path / "out")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ComparisonError, match="instead of torchrun, start it once for each GPU"):
        Work(plan, tmp_path / "out")
    monkeypatch.delenv("WORLD_SIZE")
    (tmp_path / "file").touch()
    with pytest.raises(ComparisonError, match="file cannot hold a comparison: File exists"):
        Work(plan, tmp_path / "file").all()
    assert not (tmp_path / "out").exists()


def test_whoever_writes_last_writes_what_is_true(tmp_path, photos, monkeypatch):
    """A cell that another finishes while the table is written must not be lost from it."""
    plan = small_plan(tmp_path, photos)
    Work(plan, tmp_path / "whole", "cpu").all()
    done = look(plan, tmp_path / "whole")
    stale = done.model_copy(
        update={"cells": tuple(c.model_copy(update={"state": "working"}) for c in done.cells)}
    )
    views = iter([stale, done, done, done])
    monkeypatch.setattr(standing, "look", lambda *_: next(views))
    assert write(plan, tmp_path / "whole") == done
    assert Comparison.read(tmp_path / "whole" / "comparison.json") == done


def test_training_time_is_told_without_what_a_kill_undid(tmp_path):
    events = [{"step": n, "seconds": s} for n, s in ((1, 2.0), (2, 4.0), (3, 1.5), (4, 3.0))]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    assert training_seconds(tmp_path) == 7.0
    assert training_seconds(tmp_path / "none") is None


def test_an_estimate_falls_with_what_is_done(tmp_path, photos):
    plan = small_plan(tmp_path, photos, set=["train.steps=6"])
    folders = folders_of(plan, tmp_path / "out")
    before = estimates(folders)[plan.cells[0].name]
    assert (before.steps, before.seconds) == (6, None)
    macs = 3 * 2 * 12 * 12 * (3 * 16 + 3 * 16 * 16 + 4 * 16 * 16 + 4 * 16 * 3) * 9 / 1e15
    assert before.petamacs == pytest.approx(6 * macs)
    Work(plan, tmp_path / "out", "cpu").all()
    after = estimates(folders)[plan.cells[0].name]
    assert (after.steps, after.petamacs, after.seconds) == (0, 0, 0)


ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_processes_on_one_folder_survive_kills_and_share_the_work(tmp_path, photos):
    grid = write_grid(
        tmp_path / "grid.yaml",
        photos,
        budgets=["1/2", "1/4", "1/8"],
        set=["train.steps=60"],
    )
    plan = make_plan([str(grid)], data=[str(photos)])
    whole = networks_of(plan, tmp_path / "whole")
    command = [sys.executable, "-m", "scumble", "compare", str(grid), "--data", str(photos)]
    command += ["-o", str(tmp_path / "out"), "--device", "cpu"]

    def start():
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ONE_THREAD
        )

    def begun() -> int:
        return len(list((tmp_path / "out").glob("cells/*/claims/*")))

    chance, crowd = random.Random(3), [start(), start()]
    for _ in range(2):
        before = begun()
        while begun() == before and any(process.poll() is None for process in crowd):
            time.sleep(0.005)
        time.sleep(0.2 * chance.random())
        victim = crowd.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        crowd.append(start())
    for process in crowd:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    written = Comparison.read(tmp_path / "out" / "comparison.json")
    assert set(states(written).values()) == {"done"}
    assert networks(tmp_path / "out") == whole


def test_a_cell_waits_for_the_one_whose_pressure_it_begins_with(tmp_path, photos):
    settings = [
        {"name": "constant", "pressure_of": "", "set": ["prune.anneal=false"]},
        {"name": "", "set": []},
    ]
    pace = [f"prune.{key}={value}" for key, value in PRUNE.items() if key not in ("size", "budget")]
    plan = small_plan(
        tmp_path,
        photos,
        methods=["sls"],
        budgets=["1/4"],
        settings=settings,
        set=[*pace, "train.steps=60"],
    )
    before = look(plan, tmp_path / "out")
    assert [(cell.state, cell.told) for cell in before.cells] == [
        ("waiting", "for edsr-x2_sls_1-4_seed0"),
        ("waiting", ""),
    ]
    tried: list[str] = []
    found = Work(plan, tmp_path / "out", "cpu", lambda what: tried.append(what.cell)).all()
    assert list(dict.fromkeys(tried)) == [
        "edsr-x2_sls_1-4_seed0",
        "edsr-x2_sls_1-4_constant_seed0",
    ]
    assert [cell.state for cell in found.cells] == ["done", "done"]
    constant, annealed = (read_log(tmp_path / "out" / "cells" / c.name) for c in plan.cells)
    assert {event["pressure"] for event in constant} == {annealed[-1]["pressure"]}
    assert PRUNE["pressure"] < annealed[-1]["pressure"]
    assert [cell.state for cell in look(plan, tmp_path / "out").cells] == ["done", "done"]


def test_photos_are_decoded_once_for_all_cells(tmp_path, photos, monkeypatch):
    stores: list[object] = []
    prepare = PictureStore.__init__

    def counted(self, *args, **more):
        stores.append(self)
        prepare(self, *args, **more)

    monkeypatch.setattr(PictureStore, "__init__", counted)
    found = Work(small_plan(tmp_path, photos), tmp_path / "out", "cpu").all()
    assert [cell.state for cell in found.cells] == ["done", "done"]
    assert len(stores) == 1


def test_cells_trained_before_a_key_of_recipes_was_known_are_done(tmp_path, photos, monkeypatch):
    plan = small_plan(tmp_path, photos, budgets=["1/4"])
    written = plan.cells[0].recipe.model_dump(mode="json")
    del written["train"]["teacher"]
    run = TrainingRun(plan.cells[0].recipe, tmp_path / "out/cells" / plan.cells[0].name)
    run.plain_recipe = written
    list(run.events())
    (folder,) = folders_of(plan, tmp_path / "out")
    assert folder.trained
