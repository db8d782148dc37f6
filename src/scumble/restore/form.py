"""How restored pictures are to be written, and what was asked of a batch."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from scumble.data.encoding import ENDINGS
from scumble.errors import RestoreError

KEEP = "keep"
FORMATS = {"png": "PNG", "jpg": "JPEG", "jpeg": "JPEG", "webp": "WEBP", "tiff": "TIFF"}
READ = (*ENDINGS, ".jfif", ".jpe")  # endings of pictures that are read
ENDING_OF = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "TIFF": ".tif", "BMP": ".bmp"}

MOST_MEGAPIXELS = 100


@dataclass(frozen=True)
class Form:
    """How a restored picture is written."""

    format: str = KEEP  # or png, jpg, webp, tiff
    quality: int | None = None  # 1 to 100, for JPEG and WebP; None for the best that makes sense
    strip_metadata: bool = False  # all but what is needed to show the colours right
    keep_times: bool = False  # the file's own time of change
    max_megapixels: float = MOST_MEGAPIXELS  # of the input; larger files are refused

    def __post_init__(self) -> None:
        if self.format not in (KEEP, *FORMATS):
            raise RestoreError(f"a format is {KEEP}, {', '.join(FORMATS)}, got {self.format!r}")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise RestoreError(f"a quality is 1 to 100, got {self.quality}")
        if self.quality is not None and self.format in ("png", "tiff"):
            raise RestoreError(
                f"a quality is for JPEG and WebP, got one for {self.format}; leave it out"
            )

    def format_of(self, source: str) -> str:
        """Return the format to write, given that of the source."""
        return source if self.format == KEEP else FORMATS[self.format]

    def name_of(self, name: str, source: str) -> str:
        """Return the file name to write, given name and format of the source.

        >>> Form("png").name_of("beach.JPG", "JPEG")
        'beach.png'
        """
        wanted, path = self.format_of(source), Path(name)
        if ENDINGS.get(path.suffix.lower()) == wanted:
            return name
        return (path.stem if path.suffix.lower() in READ else name) + ENDING_OF[wanted]

    def digest(self, *others: str) -> str:
        """Return a word for all that a result depends on, but for the picture itself."""
        told = {key: value for key, value in asdict(self).items() if key != "max_megapixels"}
        return hashlib.sha256(json.dumps([told, others], sort_keys=True).encode()).hexdigest()
