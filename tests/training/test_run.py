import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import scumble
from scumble.errors import BudgetError, DataError, RecipeError, TrainingError
from scumble.machine import machine
from scumble.recipe import in_full
from scumble.run_folder import read_log, read_starts
from scumble.training.prepare import Prepared
from scumble.training.run import BEST, FINAL, STATE, TrainingRun
from scumble.training.state import Origin
from scumble.training.team import Team
from tests.training.photos import PRUNE, make_photos, small_recipe


@pytest.fixture
def photos(tmp_path) -> Path:
    return make_photos(tmp_path / "photos")


def finish(recipe, folder) -> Path:
    for _ in TrainingRun(recipe, folder, device="cpu").events():
        pass
    return folder / FINAL


def test_training_makes_pictures_better(photos, tmp_path):
    recipe = small_recipe(photos, steps=120)
    start = TrainingRun(small_recipe(photos), tmp_path / "start", device="cpu").step.network
    trained = scumble.load(finish(recipe, tmp_path / "run"))
    losses = [event["loss"] for event in TrainingRun(recipe, tmp_path / "run").prepared.log.read()]
    assert losses[-1] < losses[0] / 2
    assert not torch.equal(trained.head.weight, start.head.weight)
    assert scumble.read_info(tmp_path / "run" / FINAL).recipe == recipe.model_dump(mode="json")


def test_pruning_meets_its_budget_and_says_so_on_the_way(photos, tmp_path):
    recipe = small_recipe(photos, PRUNE, steps=80)
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    events = list(run.events())
    assert events[0].kept > 0.25
    assert not events[0].reached
    assert events[-1].reached
    assert 0.2 < events[-1].kept <= 0.25
    pruned = scumble.load(tmp_path / "run" / FINAL)
    cost = scumble.inspect(pruned, (24, 24)).cost
    assert cost.paper_macs / 1e9 == pytest.approx(events[-1].gmacs, abs=1e-4)
    assert scumble.read_info(tmp_path / "run" / FINAL).pruned_by.method == "sls"


def test_the_log_tells_what_pruning_adds_to_the_loss(photos, tmp_path):
    recipe = small_recipe(photos, PRUNE, steps=80)
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    dense = run.prepared.dense_macs[0]
    first, *_, last = run.events()
    share = 48 * 48 / (24 * 24)  # the pressure counts MACs on a patch, the budget on a picture
    assert first.penalty == pytest.approx(first.pressure * share * first.kept * dense, rel=1e-4)
    assert 0 < first.penalty < first.loss
    assert last.penalty == 0
    assert read_log(tmp_path / "run")[0]["penalty"] == first.penalty


def test_a_run_tells_where_it_was_started(photos, tmp_path, monkeypatch):
    finish(small_recipe(photos, steps=5), tmp_path / "run")
    finish(small_recipe(photos, steps=5), tmp_path / "run")
    (start,) = read_starts(tmp_path / "run")
    assert (start["step"], start["device"], start["machine"]) == (0, "cpu", machine())
    assert start["versions"]["torch"] == torch.__version__
    monkeypatch.setattr("scumble.training.starts.machine", lambda: {"cpu": "another"})
    TrainingRun(small_recipe(photos, steps=5), tmp_path / "run", device="cpu")
    assert [one["step"] for one in read_starts(tmp_path / "run")] == [0, 5]
    (tmp_path / "run" / "starts.json").write_text("{")
    assert read_starts(tmp_path / "run") == []


def test_oneshot_fine_tunes_under_its_mask(photos, tmp_path):
    recipe = small_recipe(photos, {"method": "oneshot", "m": 16, "budget": "1/4"}, steps=10)
    pruned = scumble.load(finish(recipe, tmp_path / "run"))
    assert {str(p) for p in scumble.read_info(tmp_path / "run" / FINAL).patterns.values()} == {
        "4:16"
    }
    assert int((pruned.body[0].conv1.weight != 0).sum()) == 16 * 4 * 9


def test_a_budget_that_was_not_met_is_said_at_the_end(photos, tmp_path):
    recipe = small_recipe(photos, {**PRUNE, "scores_lr": 1e-6}, steps=6)
    with pytest.raises(BudgetError, match=r"after 6 steps 1.0000 of .* in another folder: longer"):
        finish(recipe, tmp_path / "run")
    assert (tmp_path / "run" / STATE).exists()


def test_validation_keeps_the_best(photos, tmp_path):
    recipe = small_recipe(photos, steps=40)
    data = recipe.data.model_copy(update={"validation": 0.4})
    recipe = recipe.model_copy(update={"data": data})
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    found = [event.psnr for event in run.events() if event.psnr is not None]
    assert len(found) == 2
    assert run.progress.best == max(found)
    best = scumble.read_info(tmp_path / "run" / BEST)
    assert best.results == {"sr-y-x2": {"validation": max(found)}}


def test_a_validation_without_a_number_keeps_no_best(photos, tmp_path, monkeypatch):
    recipe = small_recipe(photos)
    data = recipe.data.model_copy(update={"validation": 0.4})
    monkeypatch.setattr(Prepared, "score", lambda self, network: None)
    final = finish(recipe.model_copy(update={"data": data}), tmp_path / "run")
    assert not (tmp_path / "run" / BEST).exists()
    assert scumble.read_info(final).results is None


def test_a_stop_is_obeyed_after_the_step_and_goes_on_later(photos, tmp_path):
    whole = finish(small_recipe(photos), tmp_path / "whole").read_bytes()
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    for event in run.events():
        if event.step >= 8:
            run.stop()
    assert run.progress.step == 9
    assert not (tmp_path / "run" / FINAL).exists()
    assert finish(small_recipe(photos), tmp_path / "run").read_bytes() == whole


class AskedElsewhere(Team):
    """A process beside one that is asked to stop during the third step."""

    steps = 0

    def any(self, wish: bool) -> bool:
        self.steps += 1
        return wish or self.steps == 3


def test_a_stop_that_another_process_was_asked_for_is_obeyed_too(photos, tmp_path):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", AskedElsewhere("cpu"))
    assert [event.step for event in run.events()] == [3]
    assert TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu").progress.step == 3


def test_another_recipe_in_the_same_folder_is_refused(photos, tmp_path):
    finish(small_recipe(photos, steps=5), tmp_path / "run")
    with pytest.raises(TrainingError, match=r"another recipe \(train.steps: 5 then, 6 now\)"):
        TrainingRun(small_recipe(photos, steps=6), tmp_path / "run", device="cpu")
    assert "steps: 5" in (tmp_path / "run" / "recipe.yaml").read_text()


def test_a_loss_that_is_no_number_stops_the_run_with_the_last_good_state(photos, tmp_path):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    events = run.events()
    while next(events).step < 8:
        pass
    run.step.network.head.weight.data.fill_(float("nan"))
    sentence = r"the loss became nan between steps 9 and 10; .*state.safetensors is from before"
    with pytest.raises(TrainingError, match=sentence):
        list(events)
    good = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    assert good.progress.step == 5
    assert not good.step.network.head.weight.isnan().any()


def test_weights_that_the_last_step_has_spoiled_are_not_saved(photos, tmp_path, monkeypatch):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    optimize = run.step.optimizer.step

    def spoil() -> None:
        optimize()
        if run.progress.step == 9:
            run.step.network.head.weight.data[0] = float("inf")

    monkeypatch.setattr(run.step.optimizer, "step", spoil)
    sentence = (
        f"network/head.weight came to hold infinities or no numbers between steps 9 and 10; "
        f"{tmp_path / 'run' / STATE} is from before it; train with a lower lr, or with clip"
    )
    with pytest.raises(TrainingError, match=f"^{re.escape(sentence)}$"):
        list(run.events())
    assert TrainingRun(small_recipe(photos), tmp_path / "run").progress.step == 5


def test_before_anything_was_saved_this_is_said(photos, tmp_path):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    run.step.network.head.weight.data[0] = float("inf")
    sentence = r"the loss became (nan|inf) between steps 1 and 4; nothing was saved before it"
    with pytest.raises(TrainingError, match=sentence):
        list(run.events())


class Apart(Team):
    """A process beside one that is elsewhere."""

    def same(self, text: str) -> bool:
        return False


def test_processes_that_see_different_things_do_not_start(photos, tmp_path):
    sentence = (
        f"the processes of a run need the same recipe, photos, teacher and state, and these have "
        f"others; give them folders that all of them see, also for {tmp_path / 'run'}"
    )
    with pytest.raises(TrainingError, match=f"^{re.escape(sentence)}$"):
        TrainingRun(small_recipe(photos), tmp_path / "run", Apart("cpu"))
    assert not (tmp_path / "run").exists()


def test_what_cannot_work_is_said_before_any_step(photos, tmp_path):
    with pytest.raises(DataError):
        TrainingRun(small_recipe(tmp_path / "nowhere"), tmp_path / "a", device="cpu")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        TrainingRun(small_recipe(tmp_path / "empty"), tmp_path / "b", device="cpu")
    uneven = {"method": "oneshot", "m": 16, "budget": 0.3}
    with pytest.raises(RecipeError, match="no whole N is 0.3 of it; give a budget such as 1/8"):
        TrainingRun(small_recipe(photos, uneven), tmp_path / "c", device="cpu")


def test_a_corrupt_photo_is_left_out_and_named(photos, tmp_path, caplog):
    (photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    finish(small_recipe(photos, steps=2), tmp_path / "run")
    assert "broken.png" in caplog.text


def full(descriptor: int) -> None:
    """What fsync does on a full disk."""
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("since", "file"), [(5, STATE), (40, FINAL)])
def test_a_full_disk_leaves_the_last_state_whole(photos, tmp_path, monkeypatch, since, file):
    folder = tmp_path / "run"
    run = TrainingRun(small_recipe(photos), folder, device="cpu")
    events = run.events()
    while next(events).step < since:
        pass
    before = (folder / STATE).read_bytes()
    told = (
        f"{folder / file} could not be written: No space left on device; "
        f"{folder / STATE} is whole, and the same command goes on from there"
    )
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TrainingError, match=f"^{re.escape(told)}$"):
            list(events)
    assert (folder / STATE).read_bytes() == before
    assert finish(small_recipe(photos), folder).exists()


def test_a_disk_that_is_full_from_the_start_leaves_nothing(photos, tmp_path, monkeypatch):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    monkeypatch.setattr(os, "fsync", full)
    told = "could not be written: No space left on device; nothing was saved before"
    with pytest.raises(TrainingError, match=f"{STATE} {told}$"):
        list(run.events())


def command(recipe: Path, folder: Path, *launcher: str) -> list[str]:
    start = launcher or (sys.executable,)
    return [*start, "-m", "scumble", "train", str(recipe), "-o", str(folder), "--device", "cpu"]


# Sums are the same to the last bit on the same number of threads.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def kill_at_random(arguments: list[str], times: int, chance: random.Random, state: Path) -> None:
    """Start a run several times, and kill it each time soon after it has begun to train."""
    for _ in range(times):
        before = state.stat().st_mtime_ns if state.exists() else 0
        process = subprocess.Popen(
            arguments,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=ONE_THREAD,
        )
        while (
            process.poll() is None and (state.stat().st_mtime_ns if state.exists() else 0) == before
        ):
            time.sleep(0.002)
        time.sleep(chance.random() * 0.15)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("pruned", [False, True])
def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(photos, tmp_path, pruned):
    prune = PRUNE if pruned else None
    recipe = small_recipe(photos, prune, steps=120, ema=0.9, clip=1.0)
    whole = finish(recipe, tmp_path / "whole")
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.to_yaml())
    arguments = command(file, tmp_path / "killed")
    kill_at_random(arguments, 3, random.Random(7 + pruned), tmp_path / "killed" / STATE)
    assert not (tmp_path / "killed" / FINAL).exists()
    subprocess.run(arguments, check=True, capture_output=True, env=ONE_THREAD)
    assert (tmp_path / "killed" / FINAL).read_bytes() == whole.read_bytes()
    logs = [
        (tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "killed")
    ]
    assert len(logs[0]) == len(logs[1])


TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2")


@pytest.fixture
def torchrun():
    return (str(Path(sys.executable).parent / TORCHRUN[0]), *TORCHRUN[1:])


def test_two_processes_killed_together_end_with_the_same_bytes(photos, tmp_path, torchrun):
    file = tmp_path / "recipe.yaml"
    file.write_text(small_recipe(photos, PRUNE, steps=120).to_yaml())
    subprocess.run(
        command(file, tmp_path / "whole", *torchrun),
        check=True,
        capture_output=True,
        env=ONE_THREAD,
    )
    arguments = command(file, tmp_path / "killed", *torchrun)
    kill_at_random(arguments, 1, random.Random(3), tmp_path / "killed" / STATE)
    assert not (tmp_path / "killed" / FINAL).exists()
    subprocess.run(arguments, check=True, capture_output=True, env=ONE_THREAD)
    assert (tmp_path / "killed" / FINAL).read_bytes() == (tmp_path / "whole" / FINAL).read_bytes()


def test_two_processes_train_like_one_on_the_doubled_batch(photos, tmp_path, torchrun):
    file = tmp_path / "recipe.yaml"
    file.write_text(small_recipe(photos, steps=20, batch=2).to_yaml())
    subprocess.run(
        command(file, tmp_path / "two", *torchrun), check=True, capture_output=True, env=ONE_THREAD
    )
    two = scumble.load(tmp_path / "two" / FINAL).state_dict()
    one = scumble.load(finish(small_recipe(photos, steps=20, batch=4), tmp_path / "one"))
    for key, value in one.state_dict().items():
        torch.testing.assert_close(two[key], value, rtol=1e-3, atol=1e-4, msg=key)


def test_tensorboard_gets_what_the_log_gets_also_from_a_run_that_goes_on(photos, tmp_path):
    recipe = small_recipe(photos, PRUNE, steps=10)
    watch = recipe.watch.model_copy(update={"tensorboard": True})
    recipe = recipe.model_copy(update={"watch": watch})
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run" / "tensorboard").exists()
    for event in run.events():  # step 8 was logged and not saved: it comes again
        if event.step == 8:
            break
    finish(recipe, tmp_path / "run")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"loss", "lr", "kept", "gmacs", "pressure"} <= set(board.Tags()["scalars"])
    shown = [(scalar.step, pytest.approx(scalar.value)) for scalar in board.Scalars("loss")]
    assert [(event["step"], event["loss"]) for event in run.prepared.log.read()] == shown
    assert [step for step, _ in shown] == [4, 5, 8, 10]


def test_a_folder_is_for_one_run_from_the_start_to_the_last_step(photos, tmp_path):
    def start() -> TrainingRun:
        return TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")

    first = start()
    taken = f"another run is at work in {tmp_path / 'run'}; wait for it, or give another folder"
    with pytest.raises(TrainingError, match=f"^{re.escape(taken)}$"):
        start()
    events = first.events()
    next(events)
    with pytest.raises(TrainingError, match=f"^{re.escape(taken)}$"):
        start()
    events.close()
    second = start()
    assert next(second.events()).step == 4


def test_other_photos_are_noticed(photos, tmp_path):
    finish(small_recipe(photos, steps=5), tmp_path / "run")
    (photos / "photo0.png").rename(photos / "renamed.png")
    with pytest.raises(TrainingError, match="belongs to a run on other photos"):
        TrainingRun(small_recipe(photos, steps=5), tmp_path / "run", device="cpu")


def test_halves_of_files_that_a_kill_left_are_swept_away(photos, tmp_path):
    folder = tmp_path / "run"
    (folder / "cache").mkdir(parents=True)
    for half in (f".{STATE}.abc", ".log.jsonl.abc", "cache/.pictures-1.cache.abc"):
        (folder / half).write_bytes(b"half")
    (folder / "mine.txt").write_text("kept")
    (folder / "cache" / "pictures-1.cache").write_text("kept")
    run = TrainingRun(small_recipe(photos), folder, device="cpu")
    next(run.events())
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    whole = {".lock", "cache", "cache/pictures-1.cache", "log.jsonl", "mine.txt", "recipe.yaml"} | {
        "starts.json"
    }
    assert names == whole


def test_a_run_that_cannot_start_leaves_nothing(tmp_path):
    with pytest.raises(DataError):
        TrainingRun(small_recipe(tmp_path / "nowhere"), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_log_that_cannot_be_written_is_said(photos, tmp_path):
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    (tmp_path / "run" / "log.jsonl").mkdir()
    with pytest.raises(TrainingError, match=r"log.jsonl could not be written: Is a directory"):
        next(run.events())


def test_a_missing_start_says_how_to_give_one(photos, tmp_path):
    recipe = small_recipe(photos)
    network = recipe.network.model_copy(update={"start": "none.safetensors"})
    recipe = recipe.model_copy(update={"network": network})
    with pytest.raises(RecipeError, match=r"network.start: .* --set network.start=FILE"):
        TrainingRun(recipe, tmp_path / "run", device="cpu")


def test_many_bad_photos_are_named_up_to_a_point(photos, tmp_path, caplog):
    for index in range(15):
        (photos / f"bad{index:02}.png").write_bytes(b"no picture")
    run = TrainingRun(small_recipe(photos), tmp_path / "run", device="cpu")
    assert len(run.prepared.left_out) == 15
    assert "bad09.png" in caplog.text
    assert "bad10.png" not in caplog.text
    assert "5 more photos" in caplog.text


def test_a_resumed_optimizer_has_moments_laid_out_like_its_weights(photos, tmp_path):
    finish(small_recipe(photos, steps=5), tmp_path / "run")
    step = TrainingRun(small_recipe(photos, steps=5), tmp_path / "run", device="cpu").step
    moments = [
        (weight.stride(), state[name].stride())
        for weight, state in step.optimizer.state.items()
        for name in ("exp_avg", "exp_avg_sq")
    ]
    assert any(ours != tuple(sorted(ours, reverse=True)) for ours, _ in moments)  # channels last
    assert all(ours == theirs for ours, theirs in moments)


def test_a_run_begun_before_a_key_was_known_goes_on(photos, tmp_path):
    recipe = small_recipe(photos, steps=5)
    written = recipe.model_dump(mode="json")
    del written["train"]["teacher"], written["train"]["teaching"]
    assert in_full(written) == recipe.model_dump(mode="json")
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    run.origin = Origin(written, run.origin.photos)
    list(run.events())
    assert TrainingRun(recipe, tmp_path / "run", device="cpu").done
    assert in_full({"train": {"stepz": 5}}) == {"train": {"stepz": 5}}
