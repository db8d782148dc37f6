import pytest
import torch
from skimage.color import rgb2ycbcr

from scumble.metrics.colour import luma
from tests.metrics.pictures import noise


def test_black_and_white_are_the_ends_of_the_studio_range():
    ends = torch.tensor([0.0, 255.0]).expand(3, 1, 2)
    assert luma(ends).flatten().tolist() == pytest.approx([16, 235])


def test_every_colour_has_the_brightness_that_matlab_prints():
    # rgb2ycbcr(eye(3)) in MATLAB: 81.481, 144.553 and 40.966 of 255.
    primaries = (255 * torch.eye(3, dtype=torch.float64)).view(3, 3, 1)
    assert luma(primaries).flatten().tolist() == pytest.approx([81.481, 144.553, 40.966])


def test_luma_is_skimages_for_batches_too():
    batch = torch.stack([noise(5, 7, seed) for seed in range(2)]).double()
    theirs = [rgb2ycbcr(image.permute(1, 2, 0).numpy() / 255)[..., 0] for image in batch]
    for ours, expected in zip(luma(batch), theirs, strict=True):
        torch.testing.assert_close(ours[0], torch.from_numpy(expected), rtol=0, atol=1e-9)
