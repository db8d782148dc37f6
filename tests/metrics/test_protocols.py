import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.errors import MetricError, UnknownNameError
from scumble.metrics.colour import luma
from scumble.metrics.protocols import PROTOCOLS
from scumble.metrics.psnr import psnr
from scumble.metrics.ssim import ssim
from tests.metrics.pictures import noise, scene

NAMES = ["sr-y-x2", "sr-y-x3", "sr-y-x4", "gopro-rgb"]


def test_every_protocol_is_found_by_its_own_name_and_says_what_it_does():
    assert [PROTOCOLS[name].name for name in PROTOCOLS] == list(PROTOCOLS) == NAMES
    for name in NAMES:
        description = PROTOCOLS[name].description
        assert description.endswith(".")
        assert description.isprintable()


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_super_resolution_is_scored_on_luma_inside_of_the_shaved_border(scale):
    clean, restored = noise(36, 48), noise(36, 48, seed=1)
    inside = (..., slice(scale, 36 - scale), slice(scale, 48 - scale))
    seen = [luma(image.double())[inside] for image in (restored, clean)]
    scores = PROTOCOLS[f"sr-y-x{scale}"].score(restored, clean)
    assert scores == pytest.approx({"psnr": psnr(*seen), "ssim": ssim(*seen)})


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_the_shaved_border_is_exactly_as_wide_as_the_scale(scale):
    protocol, clean = PROTOCOLS[f"sr-y-x{scale}"], scene(36, 48)
    for place, seen in ((scale - 1, False), (scale, True)):
        for row, column in ((place, 20), (20, place), (35 - place, 20), (20, 47 - place)):
            restored = clean.clone()
            restored[:, row, column] ^= 128
            assert math.isfinite(protocol.score(restored, clean)["psnr"]) is seen


def test_deblurring_is_scored_on_the_whole_frame_in_all_colours():
    clean = scene(20, 24)
    scores = PROTOCOLS["gopro-rgb"].score(noise(20, 24), clean)
    assert scores == pytest.approx(
        {"psnr": psnr(noise(20, 24), clean), "ssim": ssim(noise(20, 24), clean)}
    )
    for channel, row, column in ((0, 0, 0), (1, 19, 23), (2, 0, 23)):
        restored = clean.clone()
        restored[channel, row, column] ^= 128
        error = 128**2 / clean.numel()
        psnr_of_one = 10 * math.log10(255**2 / error)
        assert PROTOCOLS["gopro-rgb"].score(restored, clean)["psnr"] == pytest.approx(psnr_of_one)


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_picture_is_perfect_as_floats_and_as_8_bits(name):
    clean = noise(24, 36)
    for restored in (clean, clean / 255, (clean / 255).double()):
        scores = PROTOCOLS[name].score(restored, clean)
        assert scores == {"psnr": math.inf, "ssim": pytest.approx(1)}


@given(st.integers(0, 255), st.floats(-0.49, 0.49))
def test_outputs_are_rounded_to_the_nearest_of_8_bits(level, off):
    value = (level + off) / 255
    prepared = PROTOCOLS["sr-y-x4"].prepare(torch.full((3, 1, 1), value))
    assert prepared.dtype == torch.uint8
    assert prepared.tolist() == [[[level]]] * 3


def test_outputs_beyond_black_and_white_are_clipped():
    beyond = torch.tensor([-0.3, 1.3, math.inf]).expand(3, 1, 3)
    assert PROTOCOLS["gopro-rgb"].prepare(beyond)[0].tolist() == [[0, 255, 255]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_coarse_floats_are_rounded_once(dtype):
    values = torch.rand(3, 40, 40).to(dtype)
    rounded = values.double().mul(255).round().to(torch.uint8)
    assert torch.equal(PROTOCOLS["gopro-rgb"].prepare(values), rounded)


def test_rounding_comes_before_scoring():
    clean = noise(24, 24) // 2
    assert PROTOCOLS["gopro-rgb"].score((clean + 0.4) / 255, clean)["psnr"] == math.inf


def test_the_clean_picture_is_cropped_at_its_end_to_a_multiple_of_the_scale():
    clean = noise(43, 50)
    assert torch.equal(PROTOCOLS["sr-y-x4"].crop(clean), clean[:, :40, :48])
    assert torch.equal(PROTOCOLS["gopro-rgb"].crop(clean), clean)
    assert PROTOCOLS["sr-y-x4"].score(clean[:, :40, :48], clean)["psnr"] == math.inf


@pytest.mark.parametrize(
    ("name", "restored", "clean", "words"),
    [
        (
            "sr-y-x4",
            noise(43, 50),
            noise(43, 50),
            "sr-y-x4 needs a restored picture of 48x40 pixels beside a clean one of 50x43, "
            "got 50x43",
        ),
        (
            "gopro-rgb",
            noise(20, 21),
            noise(20, 20),
            "gopro-rgb needs a restored picture of 20x20 pixels beside a clean one of 20x20, "
            "got 21x20",
        ),
        (
            "sr-y-x4",
            noise(16, 20),
            noise(19, 20),
            "sr-y-x4 needs pictures of at least 19x19 pixels, got 20x16",
        ),
        (
            "gopro-rgb",
            noise(10, 20),
            noise(10, 20),
            "gopro-rgb needs pictures of at least 11x11 pixels, got 20x10",
        ),
        (
            "sr-y-x2",
            noise(20, 20).unsqueeze(0),
            noise(20, 20),
            "sr-y-x2 needs one RGB picture [3, H, W], got a restored one of shape [1, 3, 20, 20]",
        ),
        (
            "sr-y-x2",
            noise(20, 20),
            noise(20, 20)[:1],
            "sr-y-x2 needs one RGB picture [3, H, W], got a clean one of shape [1, 20, 20]",
        ),
        (
            "sr-y-x2",
            noise(20, 20),
            noise(20, 20) / 255,
            "sr-y-x2 needs a clean picture of uint8, got torch.float32",
        ),
        (
            "sr-y-x2",
            noise(20, 20).long(),
            noise(20, 20),
            "sr-y-x2 needs a restored picture of floats in 0..1 or of uint8, got torch.int64",
        ),
        (
            "sr-y-x2",
            torch.full((3, 20, 20), math.nan),
            noise(20, 20),
            "sr-y-x2 needs a restored picture of numbers, got NaN in it",
        ),
    ],
)
def test_pictures_that_cannot_be_compared_are_refused(name, restored, clean, words):
    with pytest.raises(MetricError) as refused:
        PROTOCOLS[name].score(restored, clean)
    assert str(refused.value) == words


def test_the_smallest_pictures_have_one_window_inside_of_the_shaved_border():
    assert PROTOCOLS["sr-y-x3"].score(noise(18, 18), noise(18, 18))["ssim"] == pytest.approx(1)
    assert PROTOCOLS["gopro-rgb"].score(noise(11, 11), noise(11, 11))["psnr"] == math.inf


def test_an_unknown_protocol_offers_the_nearest():
    with pytest.raises(UnknownNameError) as refused:
        PROTOCOLS["gopro"]
    assert str(refused.value) == (
        "no protocol named 'gopro'. Did you mean 'gopro-rgb'? "
        "Known: gopro-rgb, sr-y-x2, sr-y-x3, sr-y-x4."
    )


def test_psnr_alone_is_that_of_the_score():
    ours, truth = noise(24, 24), noise(24, 24, seed=1)
    for protocol in (PROTOCOLS["sr-y-x4"], PROTOCOLS["gopro-rgb"]):
        assert protocol.psnr(ours, truth) == protocol.score(ours, truth)["psnr"] < 20
    with pytest.raises(
        MetricError, match="^sr-y-x4 needs a clean picture of uint8, got torch.int64$"
    ):
        PROTOCOLS["sr-y-x4"].psnr(ours, truth.long())
