import errno
import os
import re
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.data.bicubic import resize
from scumble.data.photos import (
    Pair,
    Skipped,
    check_pairs,
    clean_size,
    find_pairs,
    load_pair,
    smaller,
    split,
)
from scumble.errors import DataError, ImageError
from tests.data.photographs import noise, save_noise


def refused(words: str):
    return pytest.raises(DataError, match=f"^{re.escape(words)}$")


def benchmark(folder: Path, high: str = "HR", low: str = "LR_bicubic") -> Path:
    for name in ("b", "a"):
        save_noise(folder / high / f"{name}.png", 9, 8)
        save_noise(folder / low / "X4" / f"{name}x4.png", 2, 2)
    return folder


def test_plain_photos_are_found_below_and_sorted(tmp_path):
    for name in ("b/2.JPG", "b/10.png", "a.webp", ".hidden.png"):
        save_noise(tmp_path / name, 8, 8)
    (tmp_path / "notes.txt").write_text("no photo")
    pairs = find_pairs(str(tmp_path), 4)
    assert [pair.name for pair in pairs] == ["a.webp", "b/10.png", "b/2.JPG"]
    assert pairs[1] == Pair("b/10.png", tmp_path / "b" / "10.png", None)


@pytest.mark.parametrize(
    ("high", "low"), [("HR", "LR_bicubic"), ("DIV2K_train_HR", "DIV2K_train_LR_bicubic")]
)
def test_benchmarks_are_found(tmp_path, high, low):
    pairs = find_pairs(benchmark(tmp_path, high, low), 4)
    assert pairs == [
        Pair(f"{n}.png", tmp_path / high / f"{n}.png", tmp_path / low / "X4" / f"{n}x4.png")
        for n in ("a", "b")
    ]


@pytest.mark.parametrize(("degraded", "clean"), [("blur", "sharp"), ("input", "target")])
def test_pairs_of_one_size_are_found(tmp_path, degraded, clean):
    for side in (degraded, clean):
        save_noise(tmp_path / side / "scene" / "1.png", 4, 4)
    assert find_pairs(tmp_path, 1) == [
        Pair(
            "scene/1.png",
            tmp_path / clean / "scene" / "1.png",
            tmp_path / degraded / "scene" / "1.png",
        )
    ]


def test_the_folder_of_a_benchmark_itself_holds_plain_photos(tmp_path):
    pairs = find_pairs(benchmark(tmp_path) / "HR", 3)
    assert [(pair.name, pair.degraded) for pair in pairs] == [("a.png", None), ("b.png", None)]


def test_folders_without_photos_are_refused(tmp_path):
    with refused(f"there is no folder {tmp_path / 'none'}; name the folder of your photos"):
        find_pairs(tmp_path / "none", 4)
    endings = ".png, .jpg, .jpeg, .webp, .tif, .tiff, .bmp"
    with refused(f"{tmp_path} holds no photos; they end in {endings}"):
        find_pairs(tmp_path, 4)


def test_a_file_in_place_of_a_folder_is_called_a_file(tmp_path):
    file = tmp_path / "photo.png"
    file.write_bytes(b"")
    with refused(f"{file} is a file, photos need a folder; name the one that holds them"):
        find_pairs(file, 4)


@pytest.mark.parametrize("closed", ["", "b", "b/c"])
def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path, monkeypatch, closed):
    for name in ("a.png", "b/1.png", "b/c/2.png"):
        save_noise(tmp_path / name, 8, 8)
    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, closing(tmp_path / closed, getattr(os, name)))
    with refused(f"{tmp_path / closed} cannot be read: Permission denied"):
        find_pairs(tmp_path, 4)


def closing(folder: Path, read):
    """What reads folders, but for one."""

    def refuse(path="."):
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    return refuse


def test_missing_partners_are_named(tmp_path):
    folder = benchmark(tmp_path)
    low = folder / "LR_bicubic" / "X4"
    (low / "ax4.png").unlink()
    with refused(f"{low} lacks the partners of pictures beside it: ax4"):
        find_pairs(folder, 4)
    (folder / "HR" / "a.png").unlink()
    save_noise(low / "cx4.png", 2, 2)
    with refused(f"{folder / 'HR'} lacks the partners of pictures beside it: cx4"):
        find_pairs(folder, 4)
    for number in range(5):
        save_noise(tmp_path / "gopro" / "blur" / f"{number}.png", 4, 4)
    save_noise(tmp_path / "gopro" / "sharp" / "0.png", 4, 4)
    sharp = tmp_path / "gopro" / "sharp"
    with refused(
        f"{sharp} lacks the partners of pictures beside it: 1.png, 2.png, 3.png and 1 more"
    ):
        find_pairs(tmp_path / "gopro", 1)
    save_noise(sharp / "5.png", 4, 4)
    blur = tmp_path / "gopro" / "blur"
    with refused(f"{blur} lacks the partners of pictures beside it: 5.png"):
        find_pairs(tmp_path / "gopro", 1)


def test_a_layout_of_another_scale_is_refused(tmp_path):
    folder = benchmark(tmp_path)
    with refused(f"scale 2 needs the folder {folder / 'LR_bicubic' / 'X2'}, there is X4"):
        find_pairs(folder, 2)
    sharp, blur = tmp_path / "b" / "sharp", tmp_path / "b" / "blur"
    for side in (sharp, blur):
        save_noise(side / "1.png", 4, 4)
    with refused(f"{blur} and {sharp} hold pictures of one size and need scale 1, got 4"):
        find_pairs(tmp_path / "b", 4)
    with refused(
        f"{sharp} needs blur/ and sharp/, or input/ and target/, for scale 1, "
        f"because photos alone do not say how to degrade them"
    ):
        find_pairs(sharp, 1)
    with refused("the scale of photos needs to be a whole number from 1, got 0"):
        find_pairs(sharp, 0)


def test_half_a_layout_is_not_taken_for_plain_photos(tmp_path):
    save_noise(tmp_path / "HR" / "1.png", 4, 4)
    with refused(
        f"{tmp_path} needs both HR/ and LR_bicubic/, holds only one; if these are plain photos, "
        f"give the folder that they are in"
    ):
        find_pairs(tmp_path, 4)


def test_two_layouts_in_one_folder_are_refused(tmp_path):
    for side in ("blur", "sharp"):
        save_noise(tmp_path / side / "1.png", 4, 4)
    with refused(
        f"{benchmark(tmp_path)} needs to hold one data set, holds HR/ with LR_bicubic/, "
        f"sharp/ with blur/; move them into separate folders"
    ):
        find_pairs(tmp_path, 1)


def test_two_pictures_of_one_name_are_refused(tmp_path):
    folder = benchmark(tmp_path)
    save_noise(folder / "HR" / "a.bmp", 9, 8)
    with pytest.raises(DataError, match=r"a\.\w+ and .*a\.\w+ are two pictures of one name$"):
        find_pairs(folder, 4)


def test_a_degraded_picture_is_made_from_the_cropped_clean_one(tmp_path):
    pixels = save_noise(tmp_path / "a.png", 10, 15)
    degraded, clean = load_pair(Pair("a", tmp_path / "a.png"), 4)
    assert torch.equal(clean, pixels[:, :8, :12])
    assert torch.equal(degraded, resize(pixels[:, :8, :12], Fraction(1, 4)))


def test_a_degraded_picture_is_read_where_there_is_one(tmp_path):
    clean, degraded = save_noise(tmp_path / "a.png", 10, 9), save_noise(tmp_path / "b.png", 3, 3)
    loaded = load_pair(Pair("a", tmp_path / "a.png", tmp_path / "b.png"), 3)
    assert torch.equal(loaded[0], degraded)
    assert torch.equal(loaded[1], clean[:, :9])


def test_of_a_smaller_copy_both_pictures_are_smaller(tmp_path):
    pixels = save_noise(tmp_path / "a.png", 21, 30)
    (pair,) = smaller([Pair("a.png", tmp_path / "a.png")], 0.7)
    degraded, clean = load_pair(pair, 4)
    assert torch.equal(clean, resize(pixels, 0.7)[:, :12, :20])
    assert torch.equal(degraded, resize(clean, Fraction(1, 4)))
    assert (pair.name, pair.clean) == ("a.png at 0.7", tmp_path / "a.png")


@given(st.integers(8, 40), st.integers(8, 40), st.sampled_from([1, 0.75, 0.5, 0.3]))
def test_headers_tell_how_large_a_copy_will_be(height, width, size):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.png"
        save_noise(path, height, width)
        pair = Pair("a.png", path, size=size)
        assert clean_size(pair) == load_pair(pair, 1)[1].shape[1:]


def test_copies_that_leave_too_little_do_not_fit(tmp_path):
    save_noise(tmp_path / "a.png", 40, 64)
    whole = Pair("a.png", tmp_path / "a.png")
    half, quarter = smaller([whole], 0.5)[0], smaller([whole], 0.25)[0]
    good, (skipped,) = check_pairs([whole, half, quarter], 4, smallest_side=5)
    assert good == [whole, half]
    assert "leaves 2x4" in skipped.reason


def test_pairs_of_files_have_no_smaller_copies(tmp_path):
    with refused(
        "smaller copies of photos (data.smaller) need degraded pictures to be made, "
        "got files of them; leave it out"
    ):
        smaller(find_pairs(benchmark(tmp_path), 4), 0.5)


def test_matlabs_own_files_are_pairs_with_equal_halves(data):
    pairs = find_pairs(data / "golden" / "matlab_bicubic", 3)
    assert len(pairs) == 5
    for pair in pairs:
        made = load_pair(Pair(pair.name, pair.clean), 3)
        read = load_pair(pair, 3)
        assert torch.equal(made[0], read[0])
        assert torch.equal(made[1], read[1])


def unfit(folder: Path) -> tuple[list[Pair], list[str]]:
    """A good pair and four that are not, with what is wrong with them."""
    for name, height, width in [
        ("good", 20, 16),
        ("small", 20, 15),
        ("tiny", 3, 90),
        ("low", 6, 4),
    ]:
        save_noise(folder / f"{name}.png", height, width)
    (folder / "bad.png").write_bytes(b"nothing")
    good, small, tiny, low, bad = (
        folder / f"{name}.png" for name in ("good", "small", "tiny", "low", "bad")
    )
    pairs = [Pair(path.name, path) for path in (good, small, tiny, bad)]
    reasons = [
        f"{small} needs to leave 4 pixels a side at scale 4, leaves 5x3; "
        f"take a smaller patch, or leave it out",
        f"{tiny} needs to be larger than the scale, is 3x90 at scale 4",
        f"{bad} needs to be a PNG, JPEG, WebP, TIFF or BMP file, is none, or damaged at its "
        f"beginning",
        f"{low} needs to be 5x4, the size of {good} at scale 4, is 6x4",
    ]
    return [*pairs, Pair("wrong.png", good, low)], reasons


def test_pairs_are_checked_one_by_one(tmp_path):
    pairs, reasons = unfit(tmp_path)
    good, skipped = check_pairs(pairs, 4, smallest_side=4)
    assert good == pairs[:1]
    assert skipped == [Skipped(p.clean, r) for p, r in zip(pairs[1:], reasons, strict=True)]
    for pair, reason in zip(pairs[1:], reasons, strict=True):
        with pytest.raises((DataError, ImageError), match=f"^{re.escape(reason)}$"):
            check_pairs([pairs[0], pair], 4, smallest_side=4, strict=True)


def test_checking_reads_only_headers(tmp_path):
    save_noise(tmp_path / "a.png", 40, 40)
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(content[:200])
    pair = Pair("a.png", tmp_path / "a.png")
    assert check_pairs([pair], 4) == ([pair], [])
    with pytest.raises(ImageError, match="cut short"):
        load_pair(pair, 4)


def test_a_degraded_picture_of_another_size_is_not_loaded(tmp_path):
    pairs, reasons = unfit(tmp_path)
    for pair, reason in [(pairs[-1], reasons[-1]), (pairs[2], reasons[1])]:
        with refused(reason):
            load_pair(pair, 4)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> list[Pair]:
    folder = tmp_path_factory.mktemp("many")
    for number in range(200):
        (folder / f"{number:03}.png").write_bytes(noise(1, 4, 4, seed=number).numpy().tobytes())
    return [Pair(path.name, path) for path in sorted(folder.iterdir())]


@settings(max_examples=25)
@given(st.data(), st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 9))
def test_a_photo_keeps_its_side_whatever_else_is_there(many, data, share, seed):
    _, validation = split(many, share, seed)
    some = data.draw(st.lists(st.sampled_from(many), min_size=60, max_size=100, unique=True))
    assert split(some, share, seed) == (
        [pair for pair in some if pair not in validation],
        [pair for pair in some if pair in validation],
    )


def test_the_share_is_about_what_was_asked_for(many):
    for share in (0.1, 0.5, 0.9):
        for seed in range(3):
            assert abs(len(split(many, share, seed)[1]) / len(many) - share) < 0.1


def test_seeds_split_differently(many):
    assert split(many, 0.5, 0) != split(many, 0.5, 1)


def test_copies_of_a_photo_stay_on_one_side(many, tmp_path):
    copies = [
        Pair(pair.name, Path(shutil.copy(pair.clean, tmp_path / f"other {pair.name}")))
        for pair in many
    ]
    train, validation = split([*many, *copies], 0.5, 0)
    assert {pair.name for pair in train}.isdisjoint(pair.name for pair in validation)


def test_no_share_means_no_validation(many):
    assert split(many, 0, 0) == (many, [])
    assert split([], 0.5, 0) == ([], [])


def test_shares_that_leave_nothing_are_refused(many):
    with refused(
        "a share of 0.001 for validation leaves none of 5 photos for validation; "
        "take another share (data.validation; 0 for none), or more photos"
    ):
        split(many[:5], 0.001, 0)
    with pytest.raises(DataError, match="leaves none of 5 photos for training"):
        split(many[:5], 0.999, 0)
    with refused("the share for validation needs to be at least 0 and below 1, got 1"):
        split(many, 1, 0)


def test_a_photo_that_vanished_is_named(tmp_path):
    with pytest.raises(ImageError, match="a.png cannot be read: No such file or directory"):
        split([Pair("a.png", tmp_path / "a.png")], 0.5, 0)
