from fractions import Fraction
from math import ceil

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from scumble.data import bicubic
from scumble.data.bicubic import resize
from scumble.data.images import read_rgb
from scumble.errors import DataError
from tests.data.photographs import noise

NAMES = ("baby", "bird", "butterfly", "head", "woman")

scales = st.sampled_from(
    [2, 3, 4, 8, 1.5, Fraction(1, 2), Fraction(1, 3), 0.25, 0.4, Fraction(3, 7)]
)
sides = st.integers(1, 20)


def golden(data, name: str, shrink: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A picture cropped as it was for MATLAB, and what MATLAB made of it."""
    folder = data / "golden" / "matlab_bicubic"
    high = read_rgb(folder / "HR" / f"{name}.png")
    low = read_rgb(folder / "LR_bicubic" / f"X{shrink}" / f"{name}x{shrink}.png")
    height, width = (side // shrink * shrink for side in high.shape[1:])
    return high[:, :height, :width], low


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shrink", [2, 3, 4])
def test_every_pixel_is_the_one_of_matlab(data, name, shrink):
    high, low = golden(data, name, shrink)
    assert torch.equal(resize(high, Fraction(1, shrink)), low)
    assert torch.equal(resize(high, 1 / shrink), low)


@pytest.mark.parametrize("name", NAMES)
def test_x8_of_an_older_matlab_differs_in_its_edges_only(data, name):
    """Before symmetric edges MATLAB repeated the outermost pixels; its X8 files are that old."""
    high, low = golden(data, name, 8)
    repeated = F.pad(high.float(), (64, 64, 64, 64), mode="replicate").to(torch.uint8)
    assert torch.equal(resize(repeated, Fraction(1, 8))[:, 8:-8, 8:-8], low)


def test_doubling_by_hand():
    # Weights of the nearest four are 111, 29, -9, -3 of 128.
    pixels = torch.tensor([[[0, 128, 0, 0]]], dtype=torch.uint8)
    assert resize(pixels, 2)[0, 0].tolist() == [0, 29, 111, 111, 29, 0, 0, 0]


def test_halving_by_hand():
    # Weights are -3, -9, 29, 111, 111, 29, -9, -3 of 256: beside an edge -12 + 29 = 17.
    edge = torch.tensor([0, 0, 0, 0, 255, 255, 255, 255], dtype=torch.uint8)
    assert resize(edge.expand(1, 8, 8), 0.5)[0, 0].tolist() == [0, 17, 238, 255]
    point = torch.zeros(1, 8, 8, dtype=torch.uint8)
    point[0, :, 4] = 255
    expected = [0, 255 * 29 / 256, 255 * 111 / 256, 0]
    assert resize(point, 0.5)[0, 0].tolist() == [int(value + 0.5) for value in expected]


def test_halves_are_rounded_up():
    # One row of 128 among zeros gives 128 * 111 / 256 = 55.5 and 128 * 29 / 256 = 14.5.
    row = torch.zeros(1, 8, 8, dtype=torch.uint8)
    row[0, 4] = 128
    assert resize(row, 0.5)[0, :, 0].tolist() == [0, 15, 56, 0]


def test_each_pass_rounds_to_8_bits():
    # Of one pixel of 20 the first pass keeps 2.27, rounded to 2, and the second 0.87 of 2.
    point = torch.zeros(1, 8, 8, dtype=torch.uint8)
    point[0, 4, 3] = 20
    assert resize(point, 0.5)[0, 1].tolist() == [0, 1, 0, 0]
    assert resize(point.transpose(1, 2), 0.5)[0, :, 1].tolist() == [0, 1, 0, 0]


def test_both_passes_gather_rows_that_lie_in_one_place(monkeypatch):
    seen, weigh = [], bicubic._weighted_rows

    def look(planes, weights, sources):
        seen.append(planes.is_contiguous())
        return weigh(planes, weights, sources)

    monkeypatch.setattr(bicubic, "_weighted_rows", look)
    resize(noise(3, 12, 16).transpose(1, 2), 0.5)
    assert seen == [True, True]


def test_rows_come_first():
    pixels = noise(1, 12, 12)
    swapped = resize(pixels.transpose(1, 2), 0.5).transpose(1, 2)
    assert not torch.equal(resize(pixels, 0.5), swapped)
    height_only = bicubic._resize_rows(pixels, 0.5)
    then_width = bicubic._resize_rows(height_only.transpose(1, 2), 0.5).transpose(1, 2)
    assert torch.equal(resize(pixels, 0.5), then_width)


@given(scales, sides, sides, st.integers(0, 255))
def test_one_colour_stays_one_colour(scale, height, width, value):
    resized = resize(torch.full((3, height, width), value, dtype=torch.uint8), scale)
    assert resized.shape == (3, ceil(height * scale), ceil(width * scale))
    assert bool((resized == value).all())


@given(scales, sides, sides)
def test_a_mirrored_picture_becomes_a_mirrored_picture(scale, height, width):
    if (height * scale) % 1 or (width * scale) % 1:
        return  # then the last pixel sticks out on one side
    pixels = noise(3, height, width)
    # Sums in the opposite order may fall on the other side of one half.
    difference = resize(pixels.flip(1, 2), scale).flip(1, 2).int() - resize(pixels, scale).int()
    assert difference.abs().max() <= 1


@given(scales, sides, sides)
def test_a_batch_is_resized_picture_by_picture(scale, height, width):
    batch = noise(6, height, width).unflatten(0, (2, 3))
    assert torch.equal(resize(batch, scale), torch.stack([resize(one, scale) for one in batch]))


def test_strips_do_not_show(monkeypatch):
    pixels = noise(3, 30, 40)
    whole = [resize(pixels, scale) for scale in (0.25, 3)]
    monkeypatch.setattr(bicubic, "STRIP_VALUES", 1)
    assert all(torch.equal(resize(pixels, s), w) for s, w in zip((0.25, 3), whole, strict=True))


def test_same_size_changes_nothing():
    assert torch.equal(resize(noise(3, 9, 7), 1), noise(3, 9, 7))


def test_it_is_near_the_float_version_of_torch():
    pixels = noise(3, 48, 48)
    mirrored = torch.cat([pixels.flip(1), pixels, pixels.flip(1)], 1)
    mirrored = torch.cat([mirrored.flip(2), mirrored, mirrored.flip(2)], 2)
    theirs = F.interpolate(
        mirrored.double().unsqueeze(0), scale_factor=0.25, mode="bicubic", antialias=True
    )[0, :, 12:24, 12:24]
    assert (resize(pixels, 0.25) - theirs).abs().max() < 1.2  # half a level for each rounding


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_makes_the_same_pixels():
    pixels = noise(3, 61, 83)
    for scale in (Fraction(1, 4), Fraction(1, 3), 0.4, 4):
        assert torch.equal(resize(pixels.cuda(), scale).cpu(), resize(pixels, scale))


@pytest.mark.parametrize(
    ("pixels", "scale", "words"),
    [
        (torch.zeros(3, 4, 4), 2, r"needs uint8 pixels \[C, H, W\], got torch.float32 \(3, 4, 4\)"),
        (noise(3, 4, 4)[0], 2, r"needs uint8 pixels \[C, H, W\], got torch.uint8 \(4, 4\)"),
        (noise(3, 0, 4), 2, r"got torch.uint8 \(3, 0, 4\)"),
        (noise(3, 4, 4), 0, "needs a scale above 0, got 0"),
        (noise(3, 4, 4), float("nan"), "needs a scale above 0, got nan"),
        (noise(3, 4, 4), float("inf"), "needs a scale above 0, got inf"),
    ],
)
def test_what_cannot_be_resized_is_refused(pixels, scale, words):
    with pytest.raises(DataError, match=f"^resizing {words}|^resizing .*{words}$"):
        resize(pixels, scale)
