"""EXIF blocks, changed in place.

Cameras put notes of their own into EXIF, with offsets that nobody else understands. They stay
right only where nothing moves, so what has changed is written over, and a thumbnail that has grown
is appended.
"""

import struct
from collections.abc import Callable

from scumble.restore.tags import EXIF_FOLDER, LONG, ORDERS, SHORT

MOST_IN_JPEG = 65533 - 6  # bytes of a block in the one segment that JPEG gives it

_ENTRY = 12  # bytes of one tag: its number, its type, how many values, the values or where they are
_WIDTH, _HEIGHT, _ORIENTATION = 0x0100, 0x0101, 0x0112
_THUMBNAIL, _THUMBNAIL_LENGTH = 0x0201, 0x0202
_EXIF_WIDTH, _EXIF_HEIGHT = 0xA002, 0xA003

UPRIGHT = 1

Thumbnail = Callable[[int], bytes]  # a small JPEG, given its quality


def updated(block: bytes, height: int, width: int, thumbnail: Thumbnail) -> bytes | None:
    """Return an EXIF block that tells of an upright picture of this size; None if it is damaged."""
    try:
        return _Block(block).update(height, width, thumbnail)
    except (struct.error, KeyError):
        return None


class _Block:
    """The bytes of an EXIF block, and how to find one's way in them."""

    def __init__(self, block: bytes) -> None:
        self.bytes = bytearray(block)
        self.order = ORDERS[block[:4]]

    def update(self, height: int, width: int, thumbnail: Thumbnail) -> bytes:
        first, after_first = self._tags(self._read("I", 4))
        self._tell_size(first, _HEIGHT, _WIDTH, height, width)
        if EXIF_FOLDER in first:
            inner, _ = self._tags(self._read("I", first[EXIF_FOLDER] + 8))
            self._tell_size(inner, _EXIF_HEIGHT, _EXIF_WIDTH, height, width)
        small_at = self._read("I", after_first)
        if small_at:
            small, _ = self._tags(small_at)
            if _THUMBNAIL in small and _THUMBNAIL_LENGTH in small:
                self._replace(small, thumbnail)
            else:  # no JPEG: the folder of the thumbnail is left out
                self._write("I", after_first, 0)
        return bytes(self.bytes)

    def _tags(self, at: int) -> tuple[dict[int, int], int]:
        """Return where each tag of a folder stands, and where the next folder is named."""
        count = self._read("H", at)
        places = range(at + 2, at + 2 + count * _ENTRY, _ENTRY)
        return {self._read("H", place): place for place in places}, at + 2 + count * _ENTRY

    def _tell_size(
        self, tags: dict[int, int], high: int, wide: int, height: int, width: int
    ) -> None:
        for tag, value in ((high, height), (wide, width)):
            if tag in tags:
                self._write("HII", tags[tag] + 2, LONG, 1, value)
        if _ORIENTATION in tags:
            self._write("HIHH", tags[_ORIENTATION] + 2, SHORT, 1, UPRIGHT, 0)

    def _replace(self, tags: dict[int, int], thumbnail: Thumbnail) -> None:
        """Put a new thumbnail in the place of the old one, or behind everything else."""
        if _ORIENTATION in tags:
            self._write("HIHH", tags[_ORIENTATION] + 2, SHORT, 1, UPRIGHT, 0)
        at, room = (self._read("I", tags[tag] + 8) for tag in (_THUMBNAIL, _THUMBNAIL_LENGTH))
        if at + room > len(self.bytes):
            raise struct.error
        small = next(
            (made for made in map(thumbnail, (75, 50, 25)) if len(made) <= room), thumbnail(75)
        )
        if len(small) > room:
            at = len(self.bytes)
            self.bytes += small
        else:
            self.bytes[at : at + room] = small.ljust(room, b"\0")
        self._write("HII", tags[_THUMBNAIL] + 2, LONG, 1, at)
        self._write("HII", tags[_THUMBNAIL_LENGTH] + 2, LONG, 1, len(small))

    def _read(self, form: str, at: int) -> int:
        return struct.unpack_from(self.order + form, self.bytes, at)[0]

    def _write(self, form: str, at: int, *values: int) -> None:
        struct.pack_into(self.order + form, self.bytes, at, *values)
