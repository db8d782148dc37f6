import pytest
import torch
from hypothesis import given
from skimage.metrics import structural_similarity

from scumble.errors import MetricError
from scumble.metrics.ssim import ssim
from tests.metrics.pictures import noise, pairs, scene


def theirs(restored, clean, peak=255):
    """scikit-image's, whose mean also leaves out 5 pixels at every border."""
    return structural_similarity(
        clean.double().numpy(),
        restored.double().numpy(),
        channel_axis=0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=peak,
    )


@given(pairs())
def test_ssim_is_skimages_on_noise(pair):
    assert ssim(*pair) == pytest.approx(theirs(*pair), abs=1e-9)


@pytest.mark.parametrize("strength", [1, 10, 100])
def test_ssim_is_skimages_on_a_scene(strength):
    clean = scene(40, 33)
    restored = (clean + strength * torch.randn(clean.shape)).clamp(0, 255)
    assert ssim(restored, clean) == pytest.approx(theirs(restored, clean), abs=1e-9)
    assert ssim(restored / 255, clean / 255, peak=1) == pytest.approx(
        theirs(restored / 255, clean / 255, peak=1), abs=1e-9
    )


def test_two_flat_pictures_differ_by_brightness_alone():
    # (2*100*50 + 6.5025) / (100^2 + 50^2 + 6.5025), and the structure is the same: 1.
    bright, dim = torch.full((1, 11, 11), 100.0), torch.full((1, 11, 11), 50.0)
    assert ssim(bright, dim) == pytest.approx(10006.5025 / 12506.5025, abs=1e-9)


@given(pairs())
def test_equal_pictures_score_1_and_the_order_does_not_matter(pair):
    restored, clean = pair
    assert ssim(clean, clean) == pytest.approx(1, abs=1e-12)
    assert ssim(restored, clean) == pytest.approx(ssim(clean, restored), abs=1e-12)


def test_one_window_is_enough_and_less_is_refused():
    assert ssim(noise(11, 11), noise(11, 11)) == pytest.approx(1)
    with pytest.raises(MetricError) as refused:
        ssim(noise(10, 30), noise(10, 30))
    assert str(refused.value) == "SSIM needs pictures of at least 11x11 pixels, got 30x10"


def test_pictures_of_different_shape_are_refused():
    with pytest.raises(MetricError, match="pictures to compare need the same shape, got"):
        ssim(noise(12, 12), noise(12, 13))
