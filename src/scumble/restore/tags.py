"""Folders of tags, as TIFF files and EXIF blocks have them, copied without a change of type.

A folder is a count, then twelve bytes per tag: its number, its type, how many values, and the
values themselves or, where they are longer than four bytes, their place.
"""

import struct
from dataclasses import dataclass, field

ORDERS = {b"II*\0": "<", b"MM\0*": ">"}

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED = 1, 2, 3, 4, 5, 7
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_FORMS = {BYTE: "B", SHORT: "H", LONG: "I", RATIONAL: "I"}

EXIF_FOLDER, GPS_FOLDER, _INTEROP_FOLDER = 0x8769, 0x8825, 0xA005
FOLDERS = (EXIF_FOLDER, GPS_FOLDER, _INTEROP_FOLDER)

_MOST_TAGS = 1000  # far beyond any real folder
_HEADER = 8

# What is said about a photo, not about how its pixels are stored: title, maker, model, resolution,
# program, date, artist, computer, rating, copyright, IPTC, the texts of Windows.
ABOUT = (
    269, 270, 271, 272, 282, 283, 296, 305, 306, 315, 316, 18246, 18249, 33432, 33723,
    40091, 40092, 40093, 40094, 40095, EXIF_FOLDER, GPS_FOLDER,
)  # fmt: skip


@dataclass
class Folder:
    """Tags: type, number of values and bytes of each; and the folders among them."""

    order: str  # < or >: of the bytes of a number
    tags: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    inner: dict[int, "Folder"] = field(default_factory=dict)

    def put(self, tag: int, kind: int, *values: int) -> None:
        """Set the numbers of a tag; those of a fraction are above and below the line in turn."""
        data = struct.pack(f"{self.order}{len(values)}{_FORMS[kind]}", *values)
        self.tags[tag] = (kind, len(values) // (2 if kind == RATIONAL else 1), data)

    def put_bytes(self, tag: int, kind: int, data: bytes) -> None:
        """Set the bytes of a tag."""
        self.tags[tag] = (kind, len(data), data)

    def about(self) -> "Folder":
        """Return only what is said about the photo."""
        tags = {tag: told for tag, told in self.tags.items() if tag in ABOUT}
        inner = {tag: folder for tag, folder in self.inner.items() if tag in ABOUT}
        return Folder(self.order, tags, inner)

    def block(self) -> bytes:
        """Return the folder as an EXIF block."""
        head = next(head for head, order in ORDERS.items() if order == self.order)
        return head + struct.pack(self.order + "I", _HEADER) + self.packed(_HEADER)

    def packed(self, at: int) -> bytes:
        """Return the folder and what is in it, to be written ``at`` a place."""
        numbers = sorted({*self.tags, *self.inner})
        entries, behind = b"", b""
        start = at + 2 + 12 * len(numbers) + 4
        for tag in numbers:
            if tag in self.inner:
                kind, count = LONG, 1
                data = struct.pack(self.order + "I", start + len(behind))
                behind += _even(self.inner[tag].packed(start + len(behind)))
            else:
                kind, count, data = self.tags[tag]
                if len(data) > 4:
                    place = struct.pack(self.order + "I", start + len(behind))
                    behind += _even(data)
                    data = place
            entries += struct.pack(self.order + "HHI", tag, kind, count) + data.ljust(4, b"\0")
        return struct.pack(self.order + "H", len(numbers)) + entries + bytes(4) + behind


def read_folder(content: bytes) -> Folder | None:
    """Return the first folder of a TIFF file or an EXIF block; None if it is none, or damaged."""
    order = ORDERS.get(content[:4])
    if order is None:
        return None
    try:
        return _folder(content, order, struct.unpack_from(order + "I", content, 4)[0], depth=0)
    except (struct.error, KeyError):
        return None


def _folder(content: bytes, order: str, at: int, depth: int) -> Folder:
    (count,) = struct.unpack_from(order + "H", content, at)
    found = Folder(order)
    if count > _MOST_TAGS:
        raise struct.error
    for place in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind, number = struct.unpack_from(order + "HHI", content, place)
        if tag in FOLDERS and depth < 2:
            inner = struct.unpack_from(order + "I", content, place + 8)[0]
            found.inner[tag] = _folder(content, order, inner, depth + 1)
            continue
        size = _SIZES[kind] * number
        if size > 4:
            (place,) = struct.unpack_from(order + "I", content, place + 8)
        else:
            place += 8
        if place + size > len(content):
            raise struct.error
        found.tags[tag] = (kind, number, content[place : place + size])
    return found


def _even(data: bytes) -> bytes:
    return data + b"\0" * (len(data) % 2)
