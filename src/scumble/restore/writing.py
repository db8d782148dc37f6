"""Restored pictures as files, with what belongs to them."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from PIL import PngImagePlugin

from scumble.data.decoding import Samples
from scumble.data.encoding import ENDINGS, refuse_loss
from scumble.data.png16 import write_png16
from scumble.errors import ImageError
from scumble.restore.canvas import Canvas
from scumble.restore.exif_block import MOST_IN_JPEG
from scumble.restore.form import Form
from scumble.restore.metadata import XMP_KEY, Metadata
from scumble.restore.source import Source
from scumble.restore.tiff import write_tiff

BEST = 95  # quality of JPEG and WebP where nobody says another

_STRIP = 1 << 20  # bytes of samples that are compressed at a time
_DEEP = ("PNG", "TIFF")  # formats that hold 16 bits
_MOST_XMP_IN_JPEG = 65533 - 29
_IPTC_MARK = b"\xff\xed"


def write(canvas: Canvas, file: IO[bytes], path: Path, source: Source, form: Form) -> None:
    """Write a restored picture to a file, in the format that the ending of ``path`` says."""
    name = ENDINGS[path.suffix.lower()]
    depth = canvas.depth if name in _DEEP else 8
    refuse_loss(path, name, (canvas.height, canvas.width, canvas.channels), depth)
    metadata = source.metadata.for_size(canvas.height, canvas.width, source.thumbnail)
    if form.strip_metadata:
        metadata = metadata.of_colours()
    if name != "PNG" and metadata.icc is None and any(c[0] == b"cICP" for c in metadata.chunks):
        raise ImageError(
            f"{path} needs to be PNG, because no other format says what its colours mean (cICP)"
        )
    match name:
        case "JPEG":
            _write_jpeg(canvas, file, path, metadata, form)
        case "WEBP":
            _write_webp(canvas, file, metadata, form, source)
        case "PNG":
            _write_png(canvas, file, metadata)
        case "TIFF":
            shape, rows = (canvas.height, canvas.width, canvas.channels), _rows_of(canvas)
            write_tiff(file, _strips(canvas, rows), shape, canvas.depth, rows, metadata)
        case _:
            canvas.image().save(file, name, **_told(dpi=metadata.dpi))


def _write_jpeg(
    canvas: Canvas, file: IO[bytes], path: Path, metadata: Metadata, form: Form
) -> None:
    for what, block, most in (
        ("EXIF", metadata.exif, MOST_IN_JPEG),
        ("XMP", metadata.xmp, _MOST_XMP_IN_JPEG),
    ):
        if block is not None and len(block) > most:
            raise ImageError(
                f"{path} has {len(block)} bytes of {what}, JPEG holds at most {most}; write "
                f"another format, or strip the metadata"
            )
    extra = b""
    if metadata.iptc is not None:
        extra = _IPTC_MARK + struct.pack(">H", len(metadata.iptc) + 2) + metadata.iptc
    canvas.image().save(
        file,
        "JPEG",
        quality=form.quality or BEST,
        subsampling=0 if form.quality is None else -1,
        extra=extra,
        **_told(
            icc_profile=metadata.icc,
            exif=_with_head(metadata.exif),
            xmp=metadata.xmp,
            dpi=metadata.dpi,
            comment=metadata.comment,
        ),
    )


def _write_webp(
    canvas: Canvas, file: IO[bytes], metadata: Metadata, form: Form, source: Source
) -> None:
    kind: dict[str, Any] = {"quality": form.quality or BEST}
    if form.quality is None and not source.lossy:
        kind = {"lossless": True, "exact": True}
    told = _told(icc_profile=metadata.icc, exif=_with_head(metadata.exif), xmp=metadata.xmp)
    canvas.image().save(file, "WEBP", **kind, **told)


def _write_png(canvas: Canvas, file: IO[bytes], metadata: Metadata) -> None:
    chunks = list(metadata.chunks)
    if metadata.xmp is not None:
        chunks.append((b"iTXt", XMP_KEY + bytes(4) + metadata.xmp))
    if canvas.depth == 8:
        info = PngImagePlugin.PngInfo()
        for kind, data in chunks:
            info.add(kind, data)
        told = _told(icc_profile=metadata.icc, exif=_with_head(metadata.exif), dpi=metadata.dpi)
        canvas.image().save(file, "PNG", pnginfo=info, **told)
        return
    if metadata.icc is not None:
        chunks = [chunk for chunk in chunks if chunk[0] != b"sRGB"]  # one or the other
        chunks.insert(0, (b"iCCP", b"ICC Profile\0\0" + zlib.compress(metadata.icc)))
    if metadata.dpi is not None:
        across, down = (round(value / 0.0254) for value in metadata.dpi)
        chunks.append((b"pHYs", struct.pack(">IIB", across, down, 1)))
    if metadata.exif is not None:
        chunks.append((b"eXIf", metadata.exif))
    shape = (canvas.height, canvas.width, canvas.channels)
    write_png16(file, _strips(canvas, _rows_of(canvas)), shape, chunks)


def _with_head(block: bytes | None) -> bytes | None:
    return None if block is None else b"Exif\0\0" + block


def _told(**options: Any) -> dict[str, Any]:
    """Return the options that say something."""
    return {name: value for name, value in options.items() if value is not None}


def _rows_of(canvas: Canvas) -> int:
    """Return how many rows are compressed at a time."""
    return max(1, _STRIP // (canvas.width * canvas.channels * canvas.depth // 8))


def _strips(canvas: Canvas, rows: int) -> Iterator[Samples]:
    for start in range(0, canvas.height, rows):
        yield canvas.rows(start, min(start + rows, canvas.height))
