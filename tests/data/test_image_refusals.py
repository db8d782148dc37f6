import random
import re
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from scumble.data.images import Picture, picture_size, read_picture, write_picture
from scumble.errors import ImageError
from tests.data.photographs import noise


def refused(path: Path, words: str):
    return pytest.raises(ImageError, match=f"^{re.escape(str(path))} {words}$")


def test_a_missing_file_is_refused(tmp_path):
    with refused(tmp_path / "a.png", "cannot be read: No such file or directory"):
        read_picture(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("content", "what"), [(b"", "is empty"), (b"text", "is none, or damaged at its beginning")]
)
def test_a_file_that_is_no_picture_is_refused(tmp_path, content, what):
    (tmp_path / "a.png").write_bytes(content)
    for read in (read_picture, picture_size):
        with refused(
            tmp_path / "a.png", f"needs to be a PNG, JPEG, WebP, TIFF or BMP file, {what}"
        ):
            read(tmp_path / "a.png")


def test_other_formats_are_refused_under_any_name(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.gif")
    (tmp_path / "a.gif").rename(tmp_path / "a.png")
    with refused(tmp_path / "a.png", "needs to be a PNG, .* is none, or damaged .*"):
        read_picture(tmp_path / "a.png")


@pytest.mark.parametrize("ending", ["png", "webp", "tif"])
def test_several_pictures_in_one_file_are_refused(tmp_path, ending):
    frames = [Image.fromarray(noise(3, 8, 8, seed=s).permute(1, 2, 0).numpy()) for s in range(3)]
    path = tmp_path / f"a.{ending}"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with refused(path, "needs to hold one picture, holds 3; save the one you mean by itself"):
        read_picture(path)


def save_tiff(samples, **how):
    return lambda path: tifffile.imwrite(path, samples, **how)


DEEP = np.zeros((4, 4), np.uint16)


@pytest.mark.parametrize(
    ("ending", "save", "kind"),
    [
        ("jpg", Image.new("CMYK", (4, 4)).save, "CMYK"),
        ("tif", Image.new("CMYK", (4, 4)).save, "CMYK"),
        ("tif", Image.new("LAB", (4, 4)).save, "LAB"),
        ("tif", Image.new("F", (4, 4)).save, "F of 32 bits"),
        ("tif", save_tiff(DEEP, photometric="miniswhite"), "16 bits with 0 as white"),
        (
            "tif",
            save_tiff(np.zeros((3, 4, 4), np.uint16), photometric="rgb", planarconfig="separate"),
            "16 bits in separate planes",
        ),
    ],
)
def test_other_kinds_of_pictures_are_refused(tmp_path, ending, save, kind):
    path = tmp_path / f"a.{ending}"
    save(path)
    words = f"needs to be grey or RGB with 8 or 16 bits, is {kind}; convert it first"
    with refused(path, words):
        read_picture(path)


def test_16_bit_colours_mixed_with_their_alpha_are_refused(tmp_path):
    how = {"photometric": "rgb", "extrasamples": ["assocalpha"]}
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 4, 4), np.uint16), **how)
    words = "needs 16-bit colours as RGB or RGBA, has RGBa;16L; save it as 16-bit PNG"
    with refused(tmp_path / "a.tif", words):
        read_picture(tmp_path / "a.tif")


def test_decompression_bombs_are_refused(tmp_path, monkeypatch):
    Image.new("1", (300, 300)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40_000)
    with refused(
        tmp_path / "a.png",
        "needs to hold at most 0.08 megapixels, says it holds more; cut it into parts",
    ):
        read_picture(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60_000)  # Pillow only warns here
    assert picture_size(tmp_path / "a.png") == (300, 300)


SAVED = {
    "png": ("RGB", {}),
    "jpg": ("RGB", {}),
    "webp": ("RGB", {"lossless": True}),
    "lossy.webp": ("RGB", {}),
    "tif": ("RGB", {}),
    "lzw.tif": ("RGB", {"compression": "tiff_lzw"}),
    "bmp": ("RGB", {}),
    "palette.png": ("P", {}),
}


@pytest.fixture(params=SAVED)
def whole(request, tmp_path) -> Path:
    mode, how = SAVED[request.param]
    path = tmp_path / f"whole.{request.param}"
    image = Image.fromarray(noise(3, 40, 40).permute(1, 2, 0).numpy()).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(path, **how, **({"exif": exif} if path.suffix != ".bmp" else {}))
    return path


def test_pictures_cut_short_are_refused(whole):
    content = whole.read_bytes()
    for kept in (20, len(content) // 3, len(content) * 2 // 3):
        whole.write_bytes(content[:kept])
        with pytest.raises(ImageError, match=re.escape(str(whole))):
            read_picture(whole)


def said_by(read, path: Path) -> str | None:
    try:
        read(path)
    except ImageError as error:
        return str(error)
    return None


def test_damaged_pictures_are_read_or_refused_and_nothing_else(whole):
    content, chance = whole.read_bytes(), random.Random(0)
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3, 30])):
            # Headers matter most, so half of the damage goes there.
            end = chance.choice([min(200, len(content)), len(content)])
            damaged[chance.randrange(end)] = chance.randrange(256)
        whole.write_bytes(damaged)
        for read in (read_picture, picture_size):
            told = said_by(read, whole)
            assert told is None or (str(whole) in told and "\n" not in told)


def test_a_png_with_a_wrong_checksum_is_refused(tmp_path):
    path = tmp_path / "a.png"
    write_picture(Picture(noise(3, 40, 40)), path)
    content = bytearray(path.read_bytes())
    content[content.index(b"IEND") - 6] ^= 1  # in the checksum of the pixels
    path.write_bytes(content)
    with refused(path, "is damaged or cut short: broken PNG file .*"):
        read_picture(path)


GREY, RGB, DEEP_RGB = (
    Picture(noise(1, 4, 4)),
    Picture(noise(3, 4, 4)),
    Picture(noise(3, 4, 4, 16), 16),
)
CLEAR = Picture(noise(3, 4, 4), alpha=noise(1, 4, 4))


@pytest.mark.parametrize(
    ("picture", "name", "quality", "words"),
    [
        (
            CLEAR,
            "a.jpg",
            None,
            "needs a picture without alpha, because JPEG has none; "
            "write PNG, WebP or TIFF, or drop the alpha",
        ),
        (CLEAR, "a.bmp", None, "needs a picture without alpha, because BMP has none; .*"),
        (
            DEEP_RGB,
            "a.webp",
            None,
            "needs a picture of 8 bits, because WEBP holds no more, got 16; "
            "write PNG, or round it first",
        ),
        (DEEP_RGB, "a.jpg", 90, "needs a picture of 8 bits, because JPEG holds no more, .*"),
        (DEEP_RGB, "a.bmp", None, "needs a picture of 8 bits, because BMP holds no more, .*"),
        (
            DEEP_RGB,
            "a.tif",
            None,
            "needs 8 bits or 16-bit grey, because we write no other TIFF, "
            "got 16 bits in 3 channels; write PNG",
        ),
        (
            RGB,
            "a.gif",
            None,
            "needs an ending that says its format: .png, .jpg, .jpeg, .webp, .tif, .tiff, .bmp, "
            "got .gif",
        ),
        (RGB, "a", None, "needs an ending .* got none"),
        (RGB, "a.png", 90, "needs no quality, which is for JPEG and WebP; leave it out"),
        (RGB, "a.jpg", 0, "needs a quality of 1 to 100, got 0"),
        (RGB, "none/a.png", None, "cannot be written: No such file or directory"),
        (
            Picture(torch.zeros(1, 1, 16384, dtype=torch.uint8)),
            "a.webp",
            None,
            "needs sides of at most 16383 pixels, because WEBP holds no more, "
            "got 1x16384; write PNG",
        ),
    ],
)
def test_what_a_format_would_lose_is_not_written(tmp_path, picture, name, quality, words):
    with refused(tmp_path / name, words):
        write_picture(picture, tmp_path / name, quality)
    assert not list(tmp_path.iterdir())


def test_values_outside_of_16_bits_are_not_written(tmp_path):
    pixels = torch.tensor([[[-1, 70000]]], dtype=torch.int32)
    with pytest.raises(ImageError, match="needs values in 0..65535, got -1..70000"):
        write_picture(Picture(pixels, 16), tmp_path / "a.png")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ((noise(3, 4, 4), 16), r"depth 16 with pixels \(3, 4, 4\) of uint8$"),
        ((noise(2, 4, 4), 8), r"pixels \(2, 4, 4\) of uint8$"),
        ((noise(3, 4, 0), 8), r"pixels \(3, 4, 0\) of uint8$"),
        ((noise(3, 4, 4), 8, noise(1, 4, 5)), r"and alpha \(1, 4, 5\) of uint8$"),
        ((noise(3, 4, 4), 8, noise(1, 4, 4, 16)), r"and alpha \(1, 4, 4\) of int32$"),
        ((torch.zeros(3, 4, 4), 8), r"pixels \(3, 4, 4\) of float32$"),
    ],
)
def test_a_picture_of_parts_that_do_not_fit_is_refused(parts, told):
    with pytest.raises(ImageError, match=r"a picture needs pixels \[1 or 3, H, W\] .*" + told):
        Picture(*parts)
