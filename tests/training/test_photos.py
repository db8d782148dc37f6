import gc
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from scumble.data.photos import Pair, find_pairs, load_pair, split
from scumble.errors import DataError, ImageError
from scumble.training import photos as room
from scumble.training.photos import SPLIT_SEED, Shelf, decode_middles, decode_photos
from scumble.training.team import Team
from tests.training.photos import make_photos, small_recipe

SCALE = 2


@pytest.fixture
def photos(tmp_path) -> Path:
    return make_photos(tmp_path / "photos", count=12)


def recipe_for(photos: Path, **data: object):
    recipe = small_recipe(photos)
    wanted = recipe.data.model_copy(update={"validation": 0.4, **data})
    return recipe.model_copy(update={"data": wanted})


def sides(photos: Path) -> tuple[list[Pair], list[Pair]]:
    return split(find_pairs(photos, SCALE), 0.4, SPLIT_SEED)


def damage(pair: Pair) -> None:
    """Cut a photo short, which its header does not show."""
    pair.clean.write_bytes(pair.clean.read_bytes()[:-40])


def decode(recipe, folder, team=None):
    return decode_photos(recipe, SCALE, folder, team or Team("cpu"))


def test_photos_are_trained_on_or_validated_never_both(photos, tmp_path):
    found = decode(recipe_for(photos), tmp_path)
    training, held_out = sides(photos)
    assert found.store.pairs == training
    assert len(found.middles) == len(held_out) > 1
    assert not found.left_out


def test_a_middle_is_the_middle_of_both_pictures(photos):
    pairs = find_pairs(photos, SCALE)
    middles, _ = decode_middles(pairs, SCALE, side=7, strict=True)
    for pair, (small, clean) in zip(pairs, middles, strict=True):
        whole_small, whole_clean = load_pair(pair, SCALE)
        top, left = (whole_small.shape[1] - 7) // 2, (whole_small.shape[2] - 7) // 2
        assert torch.equal(small, whole_small[:, top : top + 7, left : left + 7])
        rows, columns = slice(2 * top, 2 * top + 14), slice(2 * left, 2 * left + 14)
        assert torch.equal(clean, whole_clean[:, rows, columns])


def test_of_a_small_photo_the_middle_is_everything(photos):
    pair = find_pairs(photos, SCALE)[0]
    ((small, clean),), _ = decode_middles([pair], SCALE, side=1000, strict=True)
    assert torch.equal(small, load_pair(pair, SCALE)[0])
    assert torch.equal(clean, load_pair(pair, SCALE)[1])


def test_a_middle_does_not_keep_its_photo_in_memory(photos):
    ((small, clean),), _ = decode_middles(find_pairs(photos, SCALE)[:1], SCALE, 7, strict=True)
    gc.collect()
    assert small.untyped_storage().nbytes() == small.numel()
    assert clean.untyped_storage().nbytes() == clean.numel()


@pytest.fixture
def halves(photos, monkeypatch) -> tuple[list[Pair], list[Pair]]:
    """Ten photos to train on and two to validate with, whatever is in them."""
    pairs = find_pairs(photos, SCALE)
    monkeypatch.setattr(room, "split", lambda pairs, share, seed: (pairs[:10], pairs[10:]))
    return pairs[:10], pairs[10:]


def test_a_damaged_photo_is_left_out_on_either_side(photos, halves, tmp_path, caplog):
    training, held_out = halves
    damage(training[0])
    damage(held_out[0])
    found = decode(recipe_for(photos), tmp_path)
    assert found.store.pairs == training[1:]
    assert len(found.middles) == 1
    assert [skip.path for skip in found.left_out] == [training[0].clean, held_out[0].clean]
    for skip in found.left_out:
        assert f"left out a photo: {skip.reason}" in caplog.text
    assert "validate" not in caplog.text


def test_without_any_photo_to_validate_on_this_is_told(photos, halves, tmp_path, caplog):
    for pair in halves[1]:
        damage(pair)
    found = decode(recipe_for(photos), tmp_path)
    assert (found.middles, len(found.left_out)) == ([], 2)
    assert "no photo is left to validate on" in caplog.text


def test_a_damaged_photo_held_out_stops_a_strict_run(photos, halves, tmp_path):
    damage(halves[1][0])
    with pytest.raises(ImageError, match=re.escape(str(halves[1][0].clean))):
        decode(recipe_for(photos, strict=True), tmp_path)


@pytest.mark.parametrize(("bad", "told"), [(11, "1 more photo"), (13, "3 more photos")])
def test_bad_photos_are_named_up_to_a_point_and_counted(photos, tmp_path, caplog, bad, told):
    for index in range(bad):
        (photos / f"bad{index:02}.png").write_bytes(b"no picture")
    decode(recipe_for(photos), tmp_path)
    assert caplog.messages[-1] == f"left out: {told}"
    assert len(caplog.messages) == 11


def test_the_digest_is_that_of_the_training_photos(photos, tmp_path):
    def digest() -> str:
        return decode(recipe_for(photos), tmp_path).digest

    before = digest()
    training, held_out = sides(photos)
    held_out[0].clean.unlink()
    assert digest() == before
    first = training[0].clean
    first.rename(first.with_name(f"{first.stem}-.png"))  # which leaves it in its place
    assert digest() != before


def test_photos_that_are_all_held_out_leave_nothing_to_train_on(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "split", lambda pairs, share, seed: ([], pairs))
    told = f"{photos} leaves no photo to train on beside the validation"
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        decode(recipe_for(photos), tmp_path)


def test_smaller_copies_are_trained_on_and_never_validated(photos, halves, tmp_path):
    found = decode(recipe_for(photos, smaller=(0.75, 0.44)), tmp_path)
    names = [pair.name for pair in halves[0]]
    # A crop of 12 needs 24 pixels, of which 0.44 of the two lowest photos leaves too little.
    high = [name for name in names if name not in ("photo0.png", "photo1.png")]
    copies = [*(f"{name} at 0.75" for name in names), *(f"{name} at 0.44" for name in high)]
    assert [pair.name for pair in found.store.pairs] == [*names, *copies]
    assert not found.left_out
    plain = decode(recipe_for(photos), tmp_path)
    assert plain.digest != found.digest
    for ours, theirs in zip(found.middles, plain.middles, strict=True):
        assert torch.equal(ours[1], theirs[1])


def test_a_damaged_photo_counts_once_with_all_of_its_copies(photos, halves, tmp_path):
    damage(halves[0][0])
    found = decode(recipe_for(photos, smaller=(0.75, 0.6)), tmp_path)
    assert [skip.path for skip in found.left_out] == [halves[0][0].clean]


class SecondOfTwo(Team):
    """A process that looks at what is there when its turn comes."""

    rank, size = 1, 2

    def __init__(self, folder: Path) -> None:
        super().__init__("cpu")
        self.folder = folder
        self.found: list[list[Path]] = []

    @contextmanager
    def first(self):
        self.found.append(list(self.folder.glob("cache/*")))
        yield
        self.found.append(list(self.folder.glob("cache/*")))


def test_decoded_photos_are_made_in_turns(photos, tmp_path):
    team = SecondOfTwo(tmp_path)
    decode(recipe_for(photos, memory_gb=1e-6), tmp_path, team)
    before, after = team.found
    assert (len(before), len(after)) == (0, 1)


def test_only_the_first_process_validates(photos, tmp_path):
    found = decode(recipe_for(photos), tmp_path, SecondOfTwo(tmp_path))
    assert found.middles == []
    assert found.store.pairs == sides(photos)[0]


def test_photos_are_decoded_once_for_several_runs_on_them(photos, tmp_path):
    shelf, team = Shelf(), Team("cpu")
    taken = [
        decode_photos(recipe, SCALE, tmp_path, team, shelf).store
        for recipe in (
            recipe_for(photos),
            recipe_for(photos),
            recipe_for(photos, smaller=(0.75,)),
            recipe_for(photos),
        )
    ]
    assert taken[0] is taken[1]
    assert taken[2] is not taken[1]
    assert taken[3] is not taken[0]
    assert decode(recipe_for(photos), tmp_path).store is not taken[3]


def test_a_shelf_lets_go_of_photos_before_it_takes_others(photos, tmp_path):
    shelf, team = Shelf(), Team("cpu")
    decode_photos(recipe_for(photos), SCALE, tmp_path, team, shelf)
    bad = recipe_for(photos, strict=True, smaller=(0.9,))
    damage(sides(photos)[0][0])
    with pytest.raises(ImageError):
        decode_photos(bad, SCALE, tmp_path, team, shelf)
    assert shelf._kept is None
