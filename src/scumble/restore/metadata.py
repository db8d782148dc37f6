"""What a picture file says beside its pixels: profile, EXIF, XMP, and what its format has."""

import re
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from typing import cast

from PIL import Image, ImageFile, JpegImagePlugin, TiffImagePlugin

from scumble.data.decoding import FORMATS
from scumble.restore.exif_block import UPRIGHT, Thumbnail, updated
from scumble.restore.tags import read_folder

_EXIF_HEAD = b"Exif\0\0"
_IPTC_SEGMENT = "APP13"
XMP_KEY = b"XML:com.adobe.xmp\0"
_RAW_PROFILE = b"Raw profile type "  # how old programs hide EXIF and XMP in a PNG

# Of a PNG: what its colours mean, and texts.
_COLOUR_CHUNKS = (b"cICP", b"sRGB", b"gAMA", b"cHRM")
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")

_TIFF_XMP = 700


@dataclass(frozen=True)
class Metadata:
    """What is kept of a picture file beside its pixels."""

    icc: bytes | None = None  # the colour profile
    exif: bytes | None = None  # from the byte order on, as in a TIFF file
    xmp: bytes | None = None
    dpi: tuple[float, float] | None = None
    comment: bytes | None = None  # of a JPEG
    iptc: bytes | None = None  # of a JPEG, in Photoshop's wrapping
    chunks: tuple[tuple[bytes, bytes], ...] = ()  # of a PNG

    def for_size(self, height: int, width: int, thumbnail: Thumbnail) -> "Metadata":
        """Return what is to be said of the upright picture of another size."""
        block = self.exif and updated(self.exif, height, width, thumbnail)
        return replace(self, exif=block, xmp=self.xmp and _resized(self.xmp, height, width))

    def of_colours(self) -> "Metadata":
        """Return only what is needed to show the colours right."""
        kept = tuple(chunk for chunk in self.chunks if chunk[0] in _COLOUR_CHUNKS)
        return Metadata(icc=self.icc, chunks=kept)


def read_metadata(content: bytes) -> Metadata:
    """Return the metadata of a picture file that can be decoded."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        image = cast(ImageFile.ImageFile, Image.open(BytesIO(content), formats=FORMATS))
        found = Metadata(icc=image.info.get("icc_profile") or None, dpi=_dpi(image))
        match image.format:
            case "PNG":
                return _of_png(found, image, content)
            case "TIFF":
                return _of_tiff(found, image, content)
            case "BMP":
                return found
            case _:
                comment = image.info.get("comment")
                return replace(
                    found,
                    exif=_without_head(image.info.get("exif")),
                    xmp=image.info.get("xmp") or None,
                    comment=comment if isinstance(comment, bytes) else None,
                    iptc=_iptc(image),
                )


def _dpi(image: Image.Image) -> tuple[float, float] | None:
    dpi = image.info.get("dpi")
    if not isinstance(dpi, tuple):
        return None
    across, down = (float(value) for value in dpi)
    return (across, down) if 1 <= across < 65536 and 1 <= down < 65536 else None


def _without_head(block: bytes | None) -> bytes | None:
    return block.removeprefix(_EXIF_HEAD) if block else None


def _iptc(image: Image.Image) -> bytes | None:
    """Return the segment of a JPEG that press agencies write captions into."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return None
    return next((content for name, content in image.applist if name == _IPTC_SEGMENT), None)


def _of_png(found: Metadata, image: ImageFile.ImageFile, content: bytes) -> Metadata:
    block, xmp, kept = None, None, []
    for kind, data in _chunks(content):
        if kind == b"eXIf":
            block = _without_head(data)
        elif kind == b"iTXt" and data.startswith(XMP_KEY):
            xmp = _text_of(data)
        elif kind in _TEXT_CHUNKS and data.startswith(_RAW_PROFILE):
            image.load()  # Pillow reads EXIF from such a text
            block = block or _without_head(image.getexif().tobytes())
        elif kind in (*_COLOUR_CHUNKS, *_TEXT_CHUNKS):
            kept.append((kind, data))
    return replace(found, exif=block, xmp=xmp, chunks=tuple(kept))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and data of every part of a PNG file."""
    at = 8
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += 12 + length


def _text_of(data: bytes) -> bytes | None:
    """Return the text of an international text of a PNG, if it is not compressed."""
    compressed, rest = data[len(XMP_KEY)], data[len(XMP_KEY) + 2 :]
    return rest.split(b"\0", 2)[2] if not compressed and rest.count(b"\0") >= 2 else None


def _of_tiff(found: Metadata, image: ImageFile.ImageFile, content: bytes) -> Metadata:
    folder = read_folder(content)
    about = None if folder is None else folder.about()
    xmp = cast(TiffImagePlugin.TiffImageFile, image).tag_v2.get(_TIFF_XMP)
    return replace(
        found,
        exif=about.block() if about is not None and (about.tags or about.inner) else None,
        xmp=xmp if isinstance(xmp, bytes) else None,
    )


def _resized(xmp: bytes, height: int, width: int) -> bytes:
    """Return XMP with the size and the orientation of another picture, where it names them."""
    for name, value in (
        (b"tiff:Orientation", UPRIGHT),
        (b"(?:tiff:ImageWidth|exif:PixelXDimension)", width),
        (b"(?:tiff:ImageLength|exif:PixelYDimension)", height),
    ):
        told = str(value).encode()
        xmp = re.sub(b"(" + name + rb"\s*=\s*[\"'])\d+", rb"\g<1>" + told, xmp)
        xmp = re.sub(b"(<" + name + rb"\s*>\s*)\d+", rb"\g<1>" + told, xmp)
    return xmp
