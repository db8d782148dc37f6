import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.data import store as store_module
from scumble.data.cache import cache_name
from scumble.data.photos import Pair, load_pair, smaller
from scumble.data.store import PictureStore
from scumble.errors import DataError, ImageError
from tests.data.photographs import save_noise

SCALE = 3
SIZES = [(20, 31), (9, 9), (40, 15), (13, 50)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[Pair]:
    folder = tmp_path_factory.mktemp("photos")
    for number, (height, width) in enumerate(SIZES):
        save_noise(folder / f"{number}.png", height, width, seed=number)
    return [Pair(path.name, path) for path in sorted(folder.iterdir())]


@pytest.fixture
def own_photos(photos, tmp_path) -> list[Pair]:
    """The same photos, to be spoiled."""
    folder = Path(shutil.copytree(photos[0].clean.parent, tmp_path / "own"))
    return [Pair(path.name, path) for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module", params=["memory", "file"])
def store(request, photos, tmp_path_factory) -> PictureStore:
    if request.param == "memory":
        return PictureStore(photos, SCALE, 10**6)
    cache = tmp_path_factory.mktemp("cache")
    made = PictureStore(photos, SCALE, 1000, cache / "new")
    assert [path.name for path in (cache / "new").iterdir()] == [cache_name(photos, SCALE)]
    return made


def test_a_store_holds_every_pair(store, photos):
    assert len(store) == 4
    assert store.pairs == photos
    assert store.sizes == [(height // SCALE, width // SCALE) for height, width in SIZES]
    assert store.skipped == []
    for index, pair in enumerate(photos):
        for ours, theirs in zip(store.pair(index), load_pair(pair, SCALE), strict=True):
            assert ours.dtype == torch.uint8
            assert torch.equal(ours, theirs)


@settings(max_examples=60)
@given(st.data())
def test_a_crop_is_a_slice_of_the_pair(store, photos, data):
    index = data.draw(st.integers(0, 3))
    height, width = store.sizes[index]
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    rows, columns = data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left))
    degraded, clean = store.crop(index, top, left, rows, columns, SCALE)
    whole = load_pair(photos[index], SCALE)
    assert torch.equal(degraded, whole[0][:, top : top + rows, left : left + columns])
    rows_of_clean = slice(top * SCALE, (top + rows) * SCALE)
    columns_of_clean = slice(left * SCALE, (left + columns) * SCALE)
    assert torch.equal(clean, whole[1][:, rows_of_clean, columns_of_clean])


@pytest.mark.parametrize("limit", [10**6, 1000])
def test_smaller_copies_stand_beside_whole_photos(photos, tmp_path, limit):
    pairs = [*photos, *smaller(photos, 0.8)]
    store = PictureStore(pairs, SCALE, limit, tmp_path)
    assert store.sizes[4:] == [(5, 8), (2, 2), (10, 4), (3, 13)]
    assert torch.equal(store.pair(6)[1], load_pair(pairs[6], SCALE)[1])
    assert cache_name(pairs[4:], SCALE) != cache_name(photos, SCALE)


def test_a_crop_is_its_own_and_may_be_changed(store):
    before = store.crop(0, 0, 0, 2, 2, SCALE)
    for part in store.crop(0, 0, 0, 2, 2, SCALE):
        part += 1
    assert all(
        torch.equal(a, b) for a, b in zip(store.crop(0, 0, 0, 2, 2, SCALE), before, strict=True)
    )


def test_a_store_travels_to_another_process(store):
    again = pickle.loads(pickle.dumps(store))
    assert all(torch.equal(a, b) for a, b in zip(again.pair(2), store.pair(2), strict=True))


@pytest.mark.parametrize(
    "place", [(-1, 0, 2, 2), (0, -1, 2, 2), (5, 0, 2, 2), (0, 9, 2, 2), (0, 0, 0, 2), (0, 0, 2, 0)]
)
def test_a_crop_outside_is_refused(store, place):
    top, left, height, width = place
    told = f"a crop needs to lie inside 6x10, got {height}x{width} at row {top}, column {left}"
    with pytest.raises(DataError, match=f"^{told}$"):
        store.crop(0, *place, SCALE)


def test_a_crop_of_another_scale_is_refused(store):
    with pytest.raises(DataError, match="^this store holds pairs of scale 3, got scale 4$"):
        store.crop(0, 0, 0, 2, 2, 4)


def test_the_limit_decides_between_memory_and_file(photos, tmp_path):
    needed = sum(3 * (h // 3) * (w // 3) * 10 for h, w in SIZES)
    copy = smaller(photos[2:3], 0.5)
    for pairs, bytes_needed in ((photos, needed), ([*photos, *copy], needed + 3 * 6 * 2 * 10)):
        folder = tmp_path / str(len(pairs))
        PictureStore(pairs, SCALE, bytes_needed, folder)
        assert not folder.exists()
        PictureStore(pairs, SCALE, bytes_needed - 1, folder)
        assert len(list(folder.iterdir())) == 1


def test_without_room_or_cache_folder_it_is_refused(photos):
    told = (
        "4 photos need 0.0 MB of memory once decoded, the limit is 0.0 MB; "
        "raise it, or name a cache folder"
    )
    with pytest.raises(DataError, match=f"^{told}$"):
        PictureStore(photos, SCALE, 10)


def test_a_full_disk_is_told_before_the_work(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    folder = tmp_path / "new" / "cache"
    told = (
        f"{folder} needs 0.0 MB for decoded photos, has 0.0 MB free; "
        f"make room, or choose a folder on another disk for the run"
    )
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        PictureStore(photos, SCALE, 10, folder)
    assert not list(tmp_path.iterdir())


def test_a_cache_folder_that_cannot_be_is_told(photos, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written: (File exists|Not a directory)$"):
        PictureStore(photos, SCALE, 10, tmp_path / "file")


def forbid_decoding(monkeypatch):
    def refuse(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(store_module, "load_pair", refuse)


def test_a_cache_is_used_again(photos, tmp_path, monkeypatch):
    first = PictureStore(photos, SCALE, 10, tmp_path)
    forbid_decoding(monkeypatch)
    second = PictureStore(photos, SCALE, 10, tmp_path)
    assert second.sizes == first.sizes
    assert all(torch.equal(a, b) for a, b in zip(first.pair(1), second.pair(1), strict=True))


def test_changed_photos_and_scales_have_another_cache(own_photos):
    names = {cache_name(own_photos, 3), cache_name(own_photos, 2), cache_name(own_photos[:3], 3)}
    save_noise(own_photos[0].clean, 20, 31, seed=9)
    names.add(cache_name(own_photos, 3))
    one, two = own_photos[:2]
    names.add(cache_name([Pair(one.name, one.clean, two.clean)], 3))
    names.add(cache_name([Pair(one.name, one.clean), Pair(two.name, two.clean)], 3))
    one.clean.unlink()
    names.add(cache_name(own_photos, 3))
    assert len(names) == 7


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:10],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content[1:],
        lambda content: content + b"\0",
        lambda content: content[:-41] + b"x" + content[-40:],
        lambda content: bytes(len(content)),
    ],
)
def test_a_damaged_cache_is_made_again(photos, tmp_path, damage):
    PictureStore(photos, SCALE, 10, tmp_path)
    path = tmp_path / cache_name(photos, SCALE)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    again = PictureStore(photos, SCALE, 10, tmp_path)
    assert path.read_bytes() == content
    assert torch.equal(again.pair(3)[1], load_pair(photos[3], SCALE)[1])


def test_an_interrupted_run_leaves_no_cache(photos, tmp_path, monkeypatch):
    def interrupt(pair, scale):
        if pair is photos[2]:
            raise KeyboardInterrupt
        return load_pair(pair, scale)

    monkeypatch.setattr(store_module, "load_pair", interrupt)
    with pytest.raises(KeyboardInterrupt):
        PictureStore(photos, SCALE, 10, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [10, 10**6])
def test_photos_that_cannot_be_used_are_left_out_and_told(own_photos, tmp_path, caplog, limit):
    cut, none = own_photos[1].clean, own_photos[2].clean
    cut.write_bytes(cut.read_bytes()[:150])
    none.write_bytes(b"")
    for _ in range(2):  # the second time the cache knows
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            store = PictureStore(own_photos, SCALE, limit, tmp_path / "cache")
        assert [pair.name for pair in store.pairs] == ["0.png", "3.png"]
        assert [skip.path for skip in store.skipped] == [cut, none]
        assert caplog.messages == [f"left out a photo: {skip.reason}" for skip in store.skipped]
        assert "is damaged or cut short" in store.skipped[0].reason
        assert torch.equal(store.pair(1)[1], load_pair(own_photos[3], SCALE)[1])
        with pytest.raises((ImageError, DataError), match="is damaged or cut short"):
            PictureStore(own_photos, SCALE, limit, tmp_path / "cache", strict=True)


def test_strict_stores_leave_nothing_behind(own_photos, tmp_path):
    own_photos[1].clean.write_bytes(b"")
    with pytest.raises(ImageError, match="is empty"):
        PictureStore(own_photos, SCALE, 10, tmp_path / "cache", strict=True)
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("limit", [10, 10**6])
def test_a_store_of_nothing_is_refused(own_photos, tmp_path, limit):
    for pair in own_photos:
        pair.clean.unlink()
    with pytest.raises(DataError, match=r"^none of 4 photos can be used: .*0.png cannot be read: "):
        PictureStore(own_photos, SCALE, limit, tmp_path)
    with pytest.raises(DataError, match="^none of 0 photos can be used$"):
        PictureStore([], SCALE, limit, tmp_path)


MEASURE = r"""
import json, re, sys
from pathlib import Path
import torch
from scumble.data.photos import find_pairs, load_pair
from scumble.data.store import PictureStore

torch.set_num_threads(1)

def peak():  # the ru_maxrss of getrusage would begin with that of the process that started us
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

folder, cache, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
pairs = find_pairs(folder, 4)
for pair in pairs[:3]:
    load_pair(pair, 4)  # what one picture takes while it is decoded
peaks = [peak()]
store = PictureStore(pairs, 4, limit, cache)
peaks.append(peak())
Path("/proc/self/clear_refs").write_text("5")  # forget the peak of decoding
peaks.append(peak())
for top in range(0, 320 - 24, 8):
    for index in range(len(store)):  # as in training, the next crop is of another photo
        store.crop(index, top, top, 24, 24, 4)
peaks.append(peak())
in_memory = PictureStore(pairs, 4, 10**9)
print(json.dumps([*peaks, peak()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_memory_stays_within_the_limit_however_many_photos(tmp_path):
    """Twelve photos of 63 MB decoded cost no more than one of them and the limit of 8 MB.

    Whatever a photo left behind, such as its pixels or mapped pages of the cache, would show twelve
    times; what does not grow with twelve does not grow with two thousand. That the measurement
    sees them is shown by the same photos in memory.
    """
    side, count = 1280, 12
    save_noise(tmp_path / "photos" / "00.bmp", side, side)
    for number in range(1, count):
        shutil.copy(tmp_path / "photos" / "00.bmp", tmp_path / "photos" / f"{number:02}.bmp")
    command = [sys.executable, "-c", MEASURE, tmp_path / "photos", tmp_path / "cache", "8000000"]
    # Freed blocks go back to the system at once, so that the numbers are the same every time.
    settled = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    printed = subprocess.run(command, capture_output=True, check=True, env=settled).stdout
    before, made, now, used, in_memory = json.loads(printed)
    assert made - before < 4_000_000  # a little for the interpreter
    assert used - now < 8_000_000
    assert in_memory - now > 40_000_000
