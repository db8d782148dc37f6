import math

import pytest
import torch
from hypothesis import assume, given
from skimage.metrics import peak_signal_noise_ratio

from scumble.errors import MetricError
from scumble.metrics.psnr import psnr
from tests.metrics.pictures import noise, pairs


def test_an_error_of_a_tenth_of_the_peak_is_20_db():
    black = torch.zeros(3, 4, 4)
    assert psnr(black, black + 25.5) == pytest.approx(20)
    assert psnr(black, black + 0.1, peak=1) == pytest.approx(20)


def test_equal_pictures_are_infinitely_good():
    assert psnr(noise(4, 4), noise(4, 4)) == math.inf


def test_eight_bit_differences_do_not_wrap_around():
    low, high = (torch.full((3, 2, 2), value, dtype=torch.uint8) for value in (0, 255))
    assert psnr(low, high) == psnr(high, low) == 0


def test_small_errors_on_bright_pictures_keep_all_their_digits():
    bright = torch.full((1, 64, 64), 254.0, dtype=torch.float64)
    assert psnr(bright, bright + 1e-9) == pytest.approx(20 * math.log10(255e9), abs=1e-3)


@given(pairs())
def test_psnr_is_skimages(pair):
    restored, clean = pair
    assume(not torch.equal(restored, clean))  # of which theirs warns
    theirs = peak_signal_noise_ratio(clean.numpy(), restored.numpy(), data_range=255)
    assert psnr(restored, clean) == pytest.approx(theirs, abs=1e-9)


def test_pictures_that_would_only_broadcast_are_refused():
    with pytest.raises(MetricError) as refused:
        psnr(torch.zeros(3, 4, 4), torch.zeros(1, 4, 4))
    assert str(refused.value) == (
        "pictures to compare need the same shape, got [3, 4, 4] and [1, 4, 4]"
    )
