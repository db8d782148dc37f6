import numpy as np
import pytest
import tifffile
from PIL import Image

from scumble.data.decoding import decode
from scumble.data.images import Picture, write_picture
from scumble.errors import ImageError, NetworkError
from scumble.restore import Form, Restorer
from tests.restore.photos import image, nearest, repeated, restore_one, samples

LOSSLESS = ("png", "webp", "tiff")
ENDING = {"png": "png", "webp": "webp", "tiff": "tif"}


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("form", LOSSLESS)
def test_every_kind_of_8_bits_stays_what_it_is(tmp_path, mode, form):
    image(mode=mode).save(tmp_path / "a.png")
    target = restore_one(tmp_path / "a.png", tmp_path / "out", Form(form))
    assert target.name == f"a.{ENDING[form]}"
    made = decode(target)
    wanted = repeated(decode(tmp_path / "a.png"))
    if form == "webp" and mode in ("L", "LA"):  # which has grey only as equal colours
        wanted = np.concatenate([wanted[:, :, :1]] * 2 + [wanted], 2)
    assert made.dtype == np.uint8
    assert np.array_equal(made, wanted)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("form", ["png", "tiff"])
def test_16_bits_stay_16_bits(tmp_path, channels, form):
    source = samples(21, 33, channels, depth=16)
    tifffile.imwrite(
        tmp_path / "a.tif",
        source if channels > 1 else source[:, :, 0],
        photometric="minisblack" if channels < 3 else "rgb",
        extrasamples=["unassalpha"] if channels in (2, 4) else [],
        planarconfig="contig" if channels > 1 else None,
    )
    if channels == 2:  # Pillow reads no such TIFF; PNG has them
        content = tmp_path / "a.png"
        (tmp_path / "a.tif").unlink()
        write_picture(Picture(*_tensors(source)), content)
    else:
        content = tmp_path / "a.tif"
    target = restore_one(content, tmp_path / "out", Form(form))
    if form == "tiff":
        assert np.array_equal(tifffile.imread(target).reshape(42, 66, channels), repeated(source))
    else:
        assert np.array_equal(decode(target), repeated(source))


def _tensors(source):
    import torch

    planes = torch.from_numpy(source.astype(np.int32)).permute(2, 0, 1)
    return planes[:1], 16, planes[1:]


def test_other_readers_see_the_tiff_that_we_write(tmp_path):
    image().save(tmp_path / "a.png")
    target = restore_one(tmp_path / "a.png", tmp_path / "out", Form("tiff"))
    wanted = repeated(np.asarray(image()))
    assert np.array_equal(tifffile.imread(target), wanted)
    assert np.array_equal(np.asarray(Image.open(target)), wanted)


def test_16_bits_are_rounded_where_the_format_asked_for_has_8(tmp_path):
    source = samples(20, 30, depth=16)
    source[::2] += 150  # nearer to the next level above
    tifffile.imwrite(tmp_path / "a.tif", source, photometric="rgb")
    target = restore_one(tmp_path / "a.tif", tmp_path / "out", Form("webp"))
    assert np.array_equal(decode(target), np.rint(repeated(source) / 257))


def test_a_palette_becomes_its_colours(tmp_path):
    image().quantize(20).save(tmp_path / "a.png")
    target = restore_one(tmp_path / "a.png", tmp_path / "out")
    assert np.array_equal(decode(target), repeated(np.asarray(image().quantize(20).convert("RGB"))))


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientation_is_applied_and_the_tag_reset(tmp_path, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    image().save(tmp_path / "a.png", exif=exif)
    target = restore_one(tmp_path / "a.png", tmp_path / "out")
    with Image.open(target) as made:
        assert made.getexif()[0x0112] == 1
        assert np.array_equal(np.asarray(made), repeated(decode(tmp_path / "a.png")))


def test_lossy_stays_lossy_and_lossless_stays_lossless(tmp_path):
    image(80, 90).save(tmp_path / "lossy.webp", quality=80)
    image(80, 90).save(tmp_path / "exact.webp", lossless=True)
    kinds = {}
    for name in ("lossy", "exact"):
        target = restore_one(tmp_path / f"{name}.webp", tmp_path / "out" / name)
        kinds[name] = b"VP8L" in target.read_bytes()
    assert kinds == {"lossy": False, "exact": True}


def test_quality_makes_files_smaller(tmp_path):
    image(80, 90).save(tmp_path / "a.jpg")
    sizes = [
        restore_one(tmp_path / "a.jpg", tmp_path / str(q), Form("jpg", q)).stat().st_size
        for q in (90, 20)
    ]
    assert sizes[1] < sizes[0] / 2


def test_alpha_of_one_value_stays_that_value():
    import scumble

    picture = samples(30, 40, 4)
    picture[:, :, 3] = 255
    made = Restorer(scumble.build("edsr-x2", features=4, blocks=1)).image(picture)
    assert (made[:, :, 3] == 255).all()


def test_alpha_is_restored_as_a_grey_picture():
    picture = samples(30, 40, 4)
    restorer = nearest()
    grey = restorer.image(picture[:, :, 3])
    assert np.array_equal(restorer.image(picture)[:, :, 3], grey)


def test_a_grey_picture_stays_grey_whatever_the_network_does():
    import scumble

    restorer = Restorer(scumble.build("edsr-x2", features=4, blocks=1))
    assert restorer.image(samples(30, 40, 1)).shape == (60, 80, 1)
    assert restorer.image(image(mode="L")).mode == "L"


def test_pillow_in_pillow_out():
    made = nearest().image(image(mode="RGBA"))
    assert made.mode == "RGBA"
    assert np.array_equal(np.asarray(made), repeated(np.asarray(image(mode="RGBA"))))


def test_a_profile_stays_with_a_pillow_image(tmp_path):
    image().save(tmp_path / "a.png", icc_profile=b"profile")
    with Image.open(tmp_path / "a.png") as picture:
        assert nearest().image(picture).info["icc_profile"] == b"profile"


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((4, 5, 3), np.float32), "a picture needs uint8 or uint16, got float32"),
        (np.zeros((4, 5, 5), np.uint8), r"needs the shape \[H, W\] or \[H, W, 1 to 4\]"),
        (np.zeros((0, 5), np.uint8), r"got \[0, 5\]"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(array, told):
    with pytest.raises(ImageError, match=told):
        nearest().image(array)


def test_images_in_other_colours_are_refused():
    with pytest.raises(ImageError, match="an image needs to be grey or RGB, got mode CMYK"):
        nearest().image(Image.new("CMYK", (4, 4)))


def test_a_network_of_another_scale_is_refused():
    with pytest.raises(NetworkError, match="x3 needs a network that enlarges by 3, got x2"):
        nearest(scale=3)


def test_a_network_that_makes_no_picture_is_refused():
    from torch import nn

    with pytest.raises(NetworkError, match="restoring needs a network that makes RGB"):
        Restorer(nn.Conv2d(3, 5, 1), engine="reference")
    with pytest.raises(NetworkError, match="restoring needs a network that takes RGB"):
        Restorer(nn.Conv2d(4, 3, 1), engine="reference")
