"""Three hundred damaged files: each is named or restored, none does harm."""

import io
import random
import struct
from pathlib import Path

import pytest
from PIL import Image

from scumble.data.decoding import decode_header
from tests.restore.photos import SCALE, image, nearest, profile

KINDS = {
    "png": {},
    "jpg": {"quality": 85},
    "webp": {"quality": 80},
    "tif": {"compression": "tiff_adobe_deflate"},
    "bmp": {},
}
EACH = 60


def whole(kind: str, seed: int) -> bytes:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 1 + seed % 8, "Maker"
    more = {} if kind == "bmp" else {"icc_profile": profile()}
    if kind in ("png", "jpg", "webp"):
        more["exif"] = exif
    image(24, 31, seed=seed).save(file, Image.EXTENSION[f".{kind}"], **KINDS[kind], **more)
    return file.getvalue()


def damaged(content: bytes, kind: str, chance: random.Random) -> bytes:
    """Return content with flipped bits, cut short, or with a size that is a lie."""
    changed = bytearray(content)
    how = chance.choice(("flip", "flip", "cut", "lie", "zero"))
    if how == "flip":
        for _ in range(chance.choice((1, 3, 20))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del changed[chance.randrange(len(changed)) :]
    elif how == "lie":
        huge = chance.choice((0, 1, 7, 5000, 65535))
        at = {"png": 16, "bmp": 18, "webp": 26, "tif": 12, "jpg": content.find(b"\xff\xc0") + 5}
        form = {"png": ">I", "bmp": "<I", "webp": "<H", "tif": "<H", "jpg": ">H"}
        struct.pack_into(form[kind], changed, at[kind], huge)
    else:
        start = chance.randrange(len(changed))
        changed[start : start + 16] = bytes(len(changed[start : start + 16]))
    return bytes(changed)


@pytest.mark.slow
def test_damaged_files_do_no_harm(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    chance = random.Random(6)
    for number in range(EACH):
        for kind in KINDS:
            content = damaged(whole(kind, number), kind, chance)
            (folder / f"{number:03}-{kind}.{kind}").write_bytes(content)
    good = {f"good-{kind}.{kind}" for kind in KINDS}
    for name in good:
        (folder / name).write_bytes(whole(name.rpartition(".")[2], 1))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    results = {result.source.name: result for result in nearest().folder(folder, tmp_path / "out")}
    assert len(results) == EACH * len(KINDS) + len(KINDS)
    assert all(results[name].status == "done" for name in good)
    failed = {name: result for name, result in results.items() if result.status == "failed"}
    assert len(failed) > 100
    for result in failed.values():
        assert str(result.source) in result.error
        assert "\n" not in result.error
        assert not result.target.exists()
    written = {path for path in (tmp_path / "out").iterdir() if path.suffix != ".jsonl"}
    done = {result.target for result in results.values() if result.status == "done"}
    assert written - {tmp_path / "out/.scumble"} == done
    for result in results.values():
        if result.status == "done":  # flipped colours are nobody's to notice
            source, made = decode_header(result.source), decode_header(result.target)
            assert (made.height, made.width) == (SCALE * source.height, SCALE * source.width)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not list(Path(tmp_path / "out").rglob("*.part"))
