import os
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from scumble.data.images import (
    Picture,
    picture_size,
    read_picture,
    read_rgb,
    to_float,
    to_uint8,
    write_picture,
)
from scumble.errors import ImageError
from tests.data.photographs import assert_same, noise, pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("images")


def array(pixels: torch.Tensor) -> np.ndarray:
    return pixels.permute(1, 2, 0).numpy()


@given(pictures())
def test_png_gives_back_every_kind_of_picture(folder, picture):
    write_picture(picture, folder / "a.png")
    assert_same(read_picture(folder / "a.png"), picture)
    assert picture_size(folder / "a.png") == picture.pixels.shape[1:]


@given(st.one_of(pictures(depths=(8,)), pictures((16,), (1,), (False,))))
def test_tiff_gives_back_every_kind_that_it_takes(folder, picture):
    write_picture(picture, folder / "a.tif")
    assert_same(read_picture(folder / "a.tif"), picture)


@given(pictures((8,), (3,)))
def test_webp_without_quality_gives_back_colours(folder, picture):
    write_picture(picture, folder / "a.webp")
    back = read_picture(folder / "a.webp")
    if picture.alpha is not None and bool((picture.alpha == 255).all()):
        assert torch.equal(back.pixels, picture.pixels)  # WebP itself drops such an alpha
    else:
        assert_same(back, picture)


@given(pictures((8,), (1, 3), (False,)))
def test_bmp_gives_back_opaque_pictures(folder, picture):
    write_picture(picture, folder / "a.BMP")
    assert_same(read_picture(folder / "a.BMP"), picture)


def test_webp_gives_grey_back_in_three_channels(folder):
    grey = noise(1, 5, 6)
    write_picture(Picture(grey), folder / "grey.webp")
    assert torch.equal(read_picture(folder / "grey.webp").pixels, grey.expand(3, -1, -1))


def test_quality_makes_lossy_files_smaller(folder):
    smooth = torch.arange(64, dtype=torch.uint8).mul(3).expand(3, 64, 64)
    for ending in ("jpg", "webp"):
        sizes = []
        for quality in (10, 90):
            path = folder / f"q{quality}.{ending}"
            write_picture(Picture(noise(3, 64, 64)), path, quality)
            sizes.append(path.stat().st_size)
        assert sizes[0] < sizes[1]
        write_picture(Picture(smooth), folder / f"smooth.{ending}", 90)
        difference = read_rgb(folder / f"smooth.{ending}").int() - smooth.int()
        assert difference.abs().max() < 12


def test_the_format_is_told_by_the_content_not_by_the_name(folder):
    pixels = noise(3, 4, 5)
    Image.fromarray(array(pixels)).save(folder / "really.png")
    (folder / "really.png").rename(folder / "really.jpg")
    assert torch.equal(read_picture(folder / "really.jpg").pixels, pixels)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "layout", [{}, {"compression": "zlib"}, {"compression": "zlib", "predictor": 2}]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_16_bit_tiff_of_others_is_read_at_full_depth(folder, order, layout, channels):
    samples = noise(channels, 17, 23, 16)
    extra = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    tifffile.imwrite(
        folder / "deep.tif",
        array(samples).astype(np.uint16),
        byteorder=order,
        photometric="rgb",
        **layout,
        **extra,
    )
    picture = read_picture(folder / "deep.tif")
    assert picture.depth == 16
    assert torch.equal(picture.pixels, samples[:3])
    assert channels == 3 or torch.equal(picture.alpha, samples[3:])


def test_our_16_bit_png_is_what_others_read(folder):
    grey = noise(1, 9, 7, 16)
    write_picture(Picture(grey, 16), folder / "grey.png")
    with Image.open(folder / "grey.png") as image:
        assert image.mode == "I;16"
        assert np.array_equal(np.asarray(image), grey[0].numpy())
    colour = noise(3, 9, 7, 16)
    write_picture(Picture(colour, 16), folder / "colour.png")
    with Image.open(folder / "colour.png") as image:  # of which Pillow reads the upper half
        assert np.array_equal(np.asarray(image), array(colour) >> 8)


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "webp"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_orientation_is_applied(folder, turn, ending):
    path = folder / f"turned.{ending}"
    image = Image.fromarray(array(noise(3, 16, 32)))
    image.getexif()[0x0112] = turn
    exif = Image.Exif()
    exif[0x0112] = turn
    image.save(path, exif=exif, **({"lossless": True} if ending == "webp" else {}))
    with Image.open(path) as stored:
        upright = torch.from_numpy(np.array(ImageOps.exif_transpose(stored))).permute(2, 0, 1)
    assert torch.equal(read_picture(path).pixels, upright)
    assert picture_size(path) == upright.shape[1:] == ((16, 32) if turn < 5 else (32, 16))


def test_palettes_become_colours_and_their_transparency_alpha(folder):
    image = Image.fromarray(np.array([[0, 1], [2, 0]], np.uint8), "P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    image.save(folder / "palette.png")
    image.save(folder / "clear.png", transparency=bytes([255, 0, 128]))
    opaque, clear = read_picture(folder / "palette.png"), read_picture(folder / "clear.png")
    assert opaque.pixels[:, 1, 0].tolist() == [70, 80, 90]
    assert opaque.alpha is None
    assert torch.equal(clear.pixels, opaque.pixels)
    assert clear.alpha.tolist() == [[[255, 0], [128, 255]]]


def test_a_transparent_colour_becomes_alpha(folder):
    pixels = np.array([[[1, 2, 3], [1, 2, 4]]], np.uint8)
    Image.fromarray(pixels).save(folder / "key.png", transparency=(1, 2, 3))
    assert read_picture(folder / "key.png").alpha.tolist() == [[[0, 255]]]
    deep = Image.fromarray(np.array([[256, 511]], np.uint16))
    deep.save(folder / "deep.png", transparency=511)
    assert read_picture(folder / "deep.png").alpha.tolist() == [[[65535, 0]]]


def test_black_and_white_is_grey(folder):
    Image.fromarray(np.array([[True, False]])).save(folder / "bw.png")
    picture = read_picture(folder / "bw.png")
    assert picture.pixels.tolist() == [[[255, 0]]]
    assert picture.alpha is None


def test_a_transparent_level_of_few_bits_is_the_right_one(folder):
    # Level 2 of a PNG with 4 levels of grey is the sample 170.
    import struct
    import zlib

    def chunk(kind, content):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", 4, 1, 2, 0, 0, 0, 0)
    (folder / "levels.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tRNS", struct.pack(">H", 2))
        + chunk(b"IDAT", zlib.compress(b"\0\x1b"))
        + chunk(b"IEND", b"")
    )
    picture = read_picture(folder / "levels.png")
    assert picture.pixels.tolist() == [[[0, 85, 170, 255]]]
    assert picture.alpha.tolist() == [[[255, 255, 0, 255]]]


def test_camera_files_with_previews_are_their_photo(folder):
    photo, preview = (Image.fromarray(array(noise(3, 32, 32, seed=s))) for s in (1, 2))
    photo.save(folder / "camera.jpg", "MPO", save_all=True, append_images=[preview])
    photo.save(folder / "plain.jpg")
    with Image.open(folder / "camera.jpg") as image:
        assert image.n_frames == 2
    assert torch.equal(read_rgb(folder / "camera.jpg"), read_rgb(folder / "plain.jpg"))


def test_rgb_replicates_grey_rounds_16_bits_and_drops_alpha(folder):
    grey = torch.tensor([[[0, 128, 129, 65406, 65407, 65535]]], dtype=torch.int32)
    write_picture(Picture(grey, 16, alpha=grey), folder / "a.png")
    rgb = read_rgb(folder / "a.png")
    assert rgb.dtype == torch.uint8
    assert rgb.tolist() == [[[0, 0, 1, 254, 255, 255]]] * 3


def test_rounding_to_8_bits_is_to_the_nearest(folder):
    every = torch.arange(65536, dtype=torch.int32).view(1, 256, 256)
    write_picture(Picture(every, 16), folder / "every.png")
    nearest = (every.double() / 257).round().to(torch.uint8)
    assert torch.equal(read_rgb(folder / "every.png")[:1], nearest)


def test_floats_round_trip_and_are_clamped():
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    assert to_float(pixels).max() == 1
    assert torch.equal(to_uint8(to_float(pixels)), pixels)
    assert to_float(torch.tensor([[[65535, 0]]], dtype=torch.int32)).tolist() == [[[1, 0]]]
    values = torch.tensor([[[-1.0, 2.0, 0.4 / 255, 0.6 / 255]]])
    assert to_uint8(values).tolist() == [[[0, 255, 0, 1]]]


def test_a_failed_write_leaves_the_old_file(folder):
    write_picture(Picture(noise(3, 4, 4)), folder / "old.jpg")
    before = (folder / "old.jpg").read_bytes()
    with pytest.raises(ImageError):
        write_picture(Picture(noise(3, 4, 4, 16), 16), folder / "old.jpg")
    assert (folder / "old.jpg").read_bytes() == before


def test_pictures_are_read_by_name_or_path(folder):
    write_picture(Picture(noise(3, 4, 4)), os.fspath(folder / "name.png"))
    assert torch.equal(read_rgb(os.fspath(folder / "name.png")), read_rgb(folder / "name.png"))
