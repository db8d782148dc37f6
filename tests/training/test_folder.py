import fcntl
import gc
import os
import re
import subprocess
import sys

import pytest

from scumble.errors import ImageError, TrainingError
from scumble.training.folder import RunFolder
from scumble.training.lock import FILE, FolderLock
from scumble.training.run import TrainingRun
from tests.training.photos import make_photos, small_recipe


def is_free(folder) -> bool:
    lock = FolderLock(folder)
    try:
        lock.take()
    except TrainingError:
        return False
    lock.release()
    return True


def tree(folder) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_folder_is_held_until_it_is_let_go(tmp_path):
    lock = FolderLock(tmp_path)
    assert is_free(tmp_path)
    lock.take()
    lock.take()
    assert not is_free(tmp_path)
    lock.release()
    lock.release()
    assert is_free(tmp_path)
    with lock:
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_a_forgotten_lock_lets_go(tmp_path):
    lock = FolderLock(tmp_path)
    lock.take()
    del lock
    gc.collect()
    assert is_free(tmp_path)


def test_a_killed_process_lets_go(tmp_path):
    code = f"""
import os, pathlib, signal
from scumble.training.lock import FolderLock
lock = FolderLock(pathlib.Path({str(tmp_path)!r}))
lock.take()
print("held", flush=True)
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert not is_free(tmp_path)
    process.kill()
    process.communicate()
    assert is_free(tmp_path)


def test_a_lock_is_on_the_file_that_others_will_find(tmp_path, monkeypatch):
    taken = []

    def meanwhile_the_file_is_taken_away(handle, how):
        taken.append(handle)
        if len(taken) == 1:
            (tmp_path / FILE).unlink()
        flock(handle, how)

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", meanwhile_the_file_is_taken_away)
    lock = FolderLock(tmp_path)
    lock.take()
    assert len(taken) == 2
    assert not is_free(tmp_path)


def next_handle() -> int:
    """The lowest number of a file that is not open."""
    handle = os.open(os.devnull, os.O_RDONLY)
    os.close(handle)
    return handle


def test_no_file_stays_open_when_a_folder_is_taken(tmp_path):
    lock = FolderLock(tmp_path)
    lock.take()
    before = next_handle()
    assert not is_free(tmp_path)
    assert next_handle() == before


@pytest.mark.parametrize("there", ["run", "run/cache", ""])
def test_abandoning_leaves_what_was_there(tmp_path, there):
    path = tmp_path / "run" / "inner" if there == "" else tmp_path / "run"
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    (tmp_path / there / "mine.txt").write_text("kept")
    before = tree(tmp_path)
    folder = RunFolder(path)
    folder.open()
    assert tree(tmp_path) > before
    folder.abandon()
    assert tree(tmp_path) == before


def test_abandoning_takes_only_the_caches_that_are_new(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "old.cache").write_text("kept")
    (tmp_path / FILE).write_text("")  # of an earlier run
    before = tree(tmp_path)
    folder = RunFolder(tmp_path)
    folder.open()
    (tmp_path / "cache" / "new.cache").write_text("made for nothing")
    folder.abandon()
    assert tree(tmp_path) == before
    assert is_free(tmp_path)


def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    told = f"{tmp_path / 'file' / 'run'} cannot hold a run: Not a directory"
    with pytest.raises(TrainingError, match=f"^{re.escape(told)}$"):
        RunFolder(tmp_path / "file" / "run").open()


def test_a_run_that_cannot_start_leaves_the_folder_of_another_as_it_is(tmp_path):
    photos, folder = make_photos(tmp_path / "photos"), tmp_path / "run"
    for _ in TrainingRun(small_recipe(photos, steps=2), folder, device="cpu").events():
        pass
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    (photos / "photo0.png").unlink()
    recipe = small_recipe(photos, steps=2)
    for data in (recipe.data, recipe.data.model_copy(update={"memory_gb": 1e-6})):
        with pytest.raises(TrainingError):
            TrainingRun(recipe.model_copy(update={"data": data}), folder, device="cpu")
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before
    assert is_free(folder)


def test_a_run_that_cannot_start_leaves_no_decoded_photos(tmp_path):
    photos = make_photos(tmp_path / "photos")
    recipe = small_recipe(photos)
    data = recipe.data.model_copy(update={"memory_gb": 1e-6, "validation": 0.4, "strict": True})
    for photo in sorted(photos.iterdir()):
        photo.write_bytes(photo.read_bytes()[:-40])  # found out when it is decoded
    with pytest.raises(ImageError, match="photo0.png is damaged or cut short"):
        TrainingRun(recipe.model_copy(update={"data": data}), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
