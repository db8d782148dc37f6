import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.data.crops import CropPlan
from scumble.errors import DataError

sizes = st.lists(st.tuples(st.integers(5, 40), st.integers(5, 40)), min_size=1, max_size=5)


@given(sizes, st.integers(0, 10**6), st.integers(0, 2**31))
def test_every_crop_lies_inside_its_picture(sizes, step, seed):
    crops = CropPlan(sizes, 5, seed).at(step, 8)
    heights, widths = np.array(sizes)[crops.picture].T
    assert (crops.top >= 0).all()
    assert (crops.left >= 0).all()
    assert (crops.top + 5 <= heights).all()
    assert (crops.left + 5 <= widths).all()
    assert set(crops.turn) <= set(range(8))


def test_a_step_always_gives_the_same_crops_and_another_step_others():
    plan = CropPlan([(50, 60), (70, 80)], 10, seed=3)
    again = CropPlan([(50, 60), (70, 80)], 10, seed=3)
    assert (plan.at(7, 64).left == again.at(7, 64).left).all()
    assert (plan.at(7, 64).left != plan.at(8, 64).left).any()
    assert (plan.at(7, 64).left != CropPlan([(50, 60), (70, 80)], 10, 4).at(7, 64).left).any()


def test_pictures_are_equally_likely_and_so_are_the_places_in_one():
    # 4 places in the first picture, 12 in the second.
    crops = CropPlan([(6, 6), (7, 8)], 5, seed=0).at(0, 48_000)
    for picture, places in ((0, 4), (1, 12)):
        here = crops.picture == picture
        _, counts = np.unique(
            np.stack([crops.top, crops.left])[:, here], axis=1, return_counts=True
        )
        assert len(counts) == places
        assert abs(counts * places / 24_000 - 1).max() < 0.1


def test_processes_share_one_list():
    plan = CropPlan([(50, 60)], 10, seed=3)
    whole = plan.at(5, 8)
    assert (np.concatenate([whole[:4].top, whole[4:].top]) == plan.at(5, 8).top).all()


def test_pictures_smaller_than_a_crop_are_refused():
    with pytest.raises(DataError, match="crops of 10 need pictures as large, got 20x9"):
        CropPlan([(50, 60), (9, 20)], 10, 0)
    with pytest.raises(DataError, match="needs at least one photo, got none"):
        CropPlan([], 10, 0)
