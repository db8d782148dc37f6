"""What files say beside their pixels, written and read by exiftool, which is nobody's of ours."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from scumble.restore import Form
from scumble.restore.exif_block import updated
from scumble.restore.metadata import Metadata, read_metadata
from scumble.restore.tags import read_folder
from tests.restore.photos import image, nearest, profile, restore_one, thumbnail

SOURCES = ("a.jpg", "a.png", "a.webp", "a.tif")
TOLD = {
    "IFD0:Make": "Camera Maker",
    "IFD0:Artist": "Jörg Ünique",
    "ExifIFD:FNumber": 2.8,
    "ExifIFD:DateTimeOriginal": "2024:05:06 07:08:09",
    "ExifIFD:UserComment": "by the sea",
    "GPS:GPSLatitude": 47.5,
    "XMP-dc:Title": "Beach",
    "IFD0:XResolution": 300,
}
SIZE = {"ExifIFD:ExifImageWidth": 60, "ExifIFD:ExifImageHeight": 80, "XMP-exif:ExifImageWidth": 60}


# What the first version of TIFF did not know, and tags that nobody wrote into the source.
HARMLESS = ("[minor]", "0x0103 Compression", "Missing required")


def exiftool(*arguments: str | Path) -> bytes:
    if shutil.which("exiftool") is None:
        pytest.skip("needs exiftool (Debian: libimage-exiftool-perl)")
    done = subprocess.run(["exiftool", *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path: Path) -> dict:
    return json.loads(exiftool("-j", "-G1", "-n", "-a", path))[0]


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    tags = {key.replace("IFD0", "IFD0", 1): value for key, value in TOLD.items()}
    tags |= {"IFD0:Orientation#": 6, "GPS:GPSLatitudeRef": "N", "XMP-tiff:Orientation#": 6}
    tags |= dict.fromkeys(SIZE, 40)
    tags |= {"IFD0:YResolution": 300, "IFD0:ResolutionUnit#": 2}
    told = [f"-{key}={value}" for key, value in tags.items()]
    (folder / "small.jpg").write_bytes(thumbnail())
    for name in SOURCES:
        image(30, 40).save(folder / name, icc_profile=profile())
        more = []
        if name == "a.jpg":
            more = [f"-ThumbnailImage<={folder / 'small.jpg'}", "-Comment=hello", "-IPTC:City=Bern"]
        exiftool("-q", "-overwrite_original", "-charset", "UTF8", *told, *more, folder / name)
    return folder


@pytest.mark.parametrize("form", ["keep", "jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("name", SOURCES)
def test_exif_xmp_and_profile_go_from_every_format_to_every_format(photos, tmp_path, name, form):
    target = restore_one(photos / name, tmp_path / "out", Form(form))
    found = read(target)
    assert {key: found.get(key) for key in TOLD | SIZE} == TOLD | SIZE
    assert found.get("IFD0:Orientation", 1) == 1
    assert found["XMP-tiff:Orientation"] == 1
    assert exiftool("-b", "-icc_profile", target) == profile()
    warnings = exiftool("-validate", "-warning", "-error", "-a", target).decode().splitlines()
    serious = [line for line in warnings[1:] if not any(known in line for known in HARMLESS)]
    assert not serious


def test_a_thumbnail_shows_the_upright_photo(photos, tmp_path):
    target = restore_one(photos / "a.jpg", tmp_path / "out")
    small = Image.open(io.BytesIO(exiftool("-b", "-ThumbnailImage", target)))
    assert small.size == (30, 40)
    with Image.open(target) as made:
        wanted = np.asarray(made.resize(small.size, Image.Resampling.BOX)).astype(float)
    assert abs(np.asarray(small) - wanted).mean() < 12  # a JPEG of low quality


def test_comment_and_press_caption_of_a_jpeg_stay(photos, tmp_path):
    found = read(restore_one(photos / "a.jpg", tmp_path / "out"))
    assert found["File:Comment"] == "hello"
    assert found["IPTC:City"] == "Bern"


@pytest.mark.parametrize("name", SOURCES)
def test_stripping_leaves_the_profile_only(photos, tmp_path, name):
    target = restore_one(photos / name, tmp_path / "out", Form(strip_metadata=True))
    found = read(target)
    assert not [key for key in found if key.split(":")[0] in ("ExifIFD", "GPS", "XMP-dc", "IPTC")]
    assert not {"IFD0:Make", "IFD0:Artist", "File:Comment"} & set(found)
    assert exiftool("-b", "-icc_profile", target) == profile()


def test_notes_of_the_camera_keep_their_place(photos, tmp_path):
    notes = bytes(range(200))
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x927C] = notes
    exif[0x0112] = 3
    image().save(tmp_path / "a.jpg", exif=exif)
    before = read_metadata((tmp_path / "a.jpg").read_bytes()).exif
    after = read_metadata(restore_one(tmp_path / "a.jpg", tmp_path / "out").read_bytes()).exif
    assert before.index(notes) == after.index(notes)
    assert len(before) == len(after)


def test_16_bit_png_keeps_what_is_said(photos, tmp_path):
    import tifffile

    from tests.restore.photos import samples

    tifffile.imwrite(
        tmp_path / "a.tif", samples(20, 30, depth=16), photometric="rgb", iccprofile=profile()
    )
    exiftool("-q", "-overwrite_original", "-Artist=Me", "-XMP:Title=Deep", tmp_path / "a.tif")
    target = restore_one(tmp_path / "a.tif", tmp_path / "out", Form("png"))
    found = read(target)
    assert (found["IFD0:Artist"], found["XMP-dc:Title"]) == ("Me", "Deep")
    assert found["PNG:BitDepth"] == 16
    assert exiftool("-b", "-icc_profile", target) == profile()


def test_texts_and_colours_of_a_png_stay(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", "a beach")
    info.add(b"gAMA", (45455).to_bytes(4, "big"))
    info.add(b"cICP", bytes([9, 16, 0, 1]))
    image().save(tmp_path / "a.png", pnginfo=info)
    content = restore_one(tmp_path / "a.png", tmp_path / "out").read_bytes()
    kept = dict(read_metadata(content).chunks)
    assert kept[b"gAMA"] == (45455).to_bytes(4, "big")
    assert kept[b"cICP"] == bytes([9, 16, 0, 1])
    assert kept[b"tEXt"] == b"Description\0a beach"
    (result,) = nearest().folder(tmp_path / "a.png", tmp_path / "jpg", form=Form("jpg"))
    assert "no other format says what its colours mean (cICP)" in result.error


def test_a_size_beyond_16_bits_is_told():
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA002] = 20000
    block = updated(exif.tobytes()[6:], 70000, 80000, lambda quality: b"")
    again = Image.Exif()
    again.load(b"Exif\0\0" + block)
    assert again.get_ifd(0x8769)[0xA002] == 80000


@pytest.mark.parametrize("cut", [3, 9, 14, 30])
def test_damaged_exif_is_left_out(cut):
    exif = Image.Exif()
    exif[0x010F] = "a maker with a long name"
    block = exif.tobytes()[6:]
    assert updated(block, 4, 5, lambda quality: b"") is not None
    assert read_folder(block) is not None
    assert read_folder(block[:cut]) is None


def test_too_much_for_a_jpeg_is_refused(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", "x" * 70000)
    image().save(tmp_path / "a.png", pnginfo=info)
    (result,) = nearest().folder(tmp_path / "a.png", tmp_path / "out", form=Form("jpg"))
    assert "has 70000 bytes of XMP, JPEG holds at most 65504" in result.error
    assert restore_one(tmp_path / "a.png", tmp_path / "png").exists()


def test_xmp_tells_the_new_size_in_both_ways_of_writing():
    xmp = (
        b"<x tiff:Orientation=\"8\" exif:PixelXDimension = '40'>"
        b"<tiff:ImageLength>30</tiff:ImageLength>"
    )
    told = Metadata(xmp=xmp).for_size(60, 80, lambda quality: b"").xmp
    assert told == (
        b"<x tiff:Orientation=\"1\" exif:PixelXDimension = '80'>"
        b"<tiff:ImageLength>60</tiff:ImageLength>"
    )


def test_a_profile_in_a_16_bit_png_is_one_that_unpacks(tmp_path):
    from scumble.restore.canvas import new_canvas
    from scumble.restore.source import Source
    from scumble.restore.writing import write

    canvas = new_canvas(4, 5, 3, 16)
    source = Source(canvas.rows(0, 4), "PNG", False, Metadata(icc=profile(), dpi=(300.0, 300.0)))
    with (tmp_path / "a.png").open("wb") as file:
        write(canvas, file, tmp_path / "a.png", source, Form())
    with Image.open(tmp_path / "a.png") as made:
        assert made.info["icc_profile"] == profile()
        assert round(made.info["dpi"][0]) == 300
