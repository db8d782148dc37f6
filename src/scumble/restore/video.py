"""Videos, frame by frame, in segments: what a kill leaves is at most one segment less.

Each segment is a small file of its own, without frames that refer to later ones, so that segments
follow each other like the frames in them. At the end they are joined, packet by packet, with the
sound as it was.
"""

import heapq
import json
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from scumble.errors import ImageError, RestoreError
from scumble.restore.runner import Runner

SEGMENT = 48  # frames
CONTAINERS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
OTHERS = (".webm", ".avi", ".mpg", ".mpeg")  # that are read, and written as .mkv
ENDINGS = (*CONTAINERS, *OTHERS)

_BEST = 17.0  # constant rate factor of x264: hardly to be told from the original
_UNKNOWN, _BT709, _BT601, _BT2020 = 2, 1, 5, 9
_MATRICES = {1: _BT709, 5: _BT601, 6: _BT601, 9: _BT2020}  # by the number that a frame has
_HD = 720  # rows from which players take unknown colours for those of HD
_RATE = Fraction(25)  # of segments; the true times of their frames stand beside them
_LIMITED = 1  # range of the samples, as players expect it

_KEPT = ("title", "artist", "date", "creation_time", "comment", "location", "copyright")

Told = Callable[[int], None]


def is_video(path: Path) -> bool:
    """Return whether a file is named like a video."""
    return path.suffix.lower() in ENDINGS


def video_name(name: str) -> str:
    """Return the name of a restored video.

    >>> video_name("clip.webm")
    'clip.mkv'
    """
    path = Path(name)
    return name if path.suffix.lower() in CONTAINERS else f"{path.stem}.mkv"


def video_size(path: Path) -> tuple[int, int, int]:
    """Return height, width and number of frames of a video, as its beginning says."""
    with _opened(path) as (container, stream):
        rate = stream.average_rate or Fraction(25)
        seconds = Fraction(container.duration or 0, 1_000_000)
        return stream.height, stream.width, stream.frames or round(seconds * rate)


def make_segments(
    path: Path, folder: Path, runner: Runner, quality: int | None, told: Told
) -> None:
    """Restore a video into a folder of segments; those that are there already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.mp4")))
    with _opened(path) as (container, stream):
        frames = islice(_frames(path, container, stream), number * SEGMENT, None)
        write = _Writer(folder, stream, runner, quality, told)
        while write(number, islice(frames, SEGMENT)) == SEGMENT:
            number += 1
    if not any(folder.glob("*.mp4")):
        raise ImageError(f"{path} needs to hold a video, holds no frame that can be decoded")


def join(path: Path, folder: Path, file: IO[bytes], name: Path) -> None:
    """Write all segments, and the sound of the source, as one video."""
    form = CONTAINERS[name.suffix.lower()]
    with _opened(path) as (source, seen), _av().open(file, "w", format=form) as target:
        target.metadata.update({k: v for k, v in source.metadata.items() if k in _KEPT})
        parts = sorted(folder.glob("*.mp4"))
        with _av().open(str(parts[0])) as first:
            video = target.add_stream_from_template(first.streams.video[0])
        video.time_base = seen.time_base  # so that no time is rounded
        sounds = {stream.index: stream for stream in source.streams.audio}
        copies = {index: target.add_stream_from_template(s) for index, s in sounds.items()}
        packets = heapq.merge(
            _picture_packets(parts, video),
            _sound_packets(source, sounds, copies),
            key=lambda packet: packet.dts * packet.time_base,
        )
        for packet in packets:
            target.mux(packet)


def _av() -> Any:
    """Return PyAV, which is an extra."""
    try:
        return import_module("av")
    except ImportError as error:
        raise RestoreError(
            "restoring videos needs PyAV; install it: pip install 'scumble[video]'"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield a video file and its first stream of pictures."""
    av = _av()
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise ImageError(f"{path} needs to hold a video, holds only sound")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            bits = stream.codec_context.format.components[0].bits
            if bits > 8:
                raise ImageError(
                    f"{path} needs 8 bits per sample, holds {bits} (HDR); convert it first"
                )
            yield container, stream
    except av.FFmpegError as error:
        raise ImageError(f"{path} is damaged or no video: {error.strerror}") from error


def _frames(path: Path, container: Any, stream: Any) -> Generator[Any]:
    """Yield the frames of a video; from where it is damaged on, nothing."""
    last = -1
    try:
        for frame in container.decode(stream):
            if frame.pts is None:
                frame.pts = last + 1
            if frame.pts > last:  # a frame at no later time than the last cannot be shown
                last = frame.pts
                yield frame
    except _av().FFmpegError as error:
        raise ImageError(f"{path} is damaged: {error.strerror}") from error


@dataclass(frozen=True)
class _Writer:
    """Restores frames into segments, each of which is there once it is whole."""

    folder: Path
    source: Any  # the stream that the frames are of
    runner: Runner
    quality: int | None
    told: Told

    def __call__(self, number: int, frames: Iterable[Any]) -> int:
        """Write a segment; return how many frames there were for it."""
        part, times = self.folder / f"{number:06}.part", []
        with _av().open(str(part), "w", format="mp4") as target:
            stream: Any = None
            for frame in frames:
                matrix = _matrix(frame)
                canvas = self.runner.restore(_samples(frame, matrix))
                rows = canvas.rows(0, canvas.height)
                if stream is None:
                    size = (canvas.height, canvas.width)
                    stream = _stream(target, size, self.source, self.quality, frame, matrix)
                picture = _av().VideoFrame.from_ndarray(rows, format="rgb24")
                picture = picture.reformat(format=stream.pix_fmt, dst_colorspace=matrix)
                picture.pts, picture.time_base = len(times), 1 / _RATE
                target.mux(stream.encode(picture))
                times.append(frame.pts)
                self.told(number * SEGMENT + len(times))
            if stream is not None:
                target.mux(stream.encode(None))
        if times:
            base = self.source.time_base
            about = {"times": times, "time_base": [base.numerator, base.denominator]}
            part.with_suffix(".json").write_text(json.dumps(about))
            part.replace(part.with_suffix(".mp4"))
        else:
            part.unlink(missing_ok=True)
        return len(times)


def _stream(
    target: Any,
    size: tuple[int, int],
    source: Any,
    quality: int | None,
    frame: Any,
    matrix: int,
) -> Any:
    """Return a stream to encode into, which says what its colours mean."""
    stream = target.add_stream("libx264", rate=_RATE)
    stream.height, stream.width = size
    stream.pix_fmt = "yuv444p" if any(side % 2 for side in size) else "yuv420p"
    # 95 as for photos is the best; each point less is a bit less.
    factor = _BEST if quality is None else _BEST + (95 - quality) * 0.3
    stream.options = {"crf": str(factor), "preset": "medium", "bf": "0"}
    context, given = stream.codec_context, source.codec_context
    context.colorspace, context.color_range = matrix, _LIMITED
    for name in ("color_primaries", "color_trc"):
        value = getattr(given, name)
        setattr(context, name, value if value != _UNKNOWN or matrix != _BT709 else _BT709)
    if given.sample_aspect_ratio and not frame.rotation % 180:
        context.sample_aspect_ratio = given.sample_aspect_ratio
    return stream


def _samples(frame: Any, matrix: int) -> NDArray[np.uint8]:
    """Return a frame as RGB, upright."""
    colours = frame.reformat(format="rgb24", src_colorspace=matrix).to_ndarray()
    return np.ascontiguousarray(np.rot90(colours, round(frame.rotation / 90)))


def _matrix(frame: Any) -> int:
    """Return by which rule brightness and colours of a frame are made of RGB."""
    return _MATRICES.get(int(frame.colorspace), _BT709 if frame.height >= _HD else _BT601)


def _picture_packets(parts: Iterable[Path], video: Any) -> Iterator[Any]:
    """Yield the packets of all segments, at the times of their frames."""
    for part in parts:
        about = json.loads(part.with_suffix(".json").read_text())
        times = about["times"]
        lasts = [after - before for before, after in pairwise(times)]
        with _av().open(str(part)) as container:
            packets = (packet for packet in container.demux(video=0) if packet.size)
            for packet, time, lasting in zip(
                packets, times, [*lasts, *(lasts[-1:] or [0])], strict=True
            ):
                packet.stream = video
                packet.time_base = Fraction(*about["time_base"])
                packet.pts = packet.dts = time
                packet.duration = lasting
                yield packet


def _sound_packets(source: Any, sounds: dict[int, Any], copies: dict[int, Any]) -> Iterator[Any]:
    """Yield the packets of the sound as they are."""
    for packet in source.demux(list(sounds.values())) if sounds else ():
        if packet.dts is not None:
            packet.stream = copies[packet.stream.index]
            yield packet


def forget(folder: Path) -> None:
    """Remove the segments of a video that is done."""
    shutil.rmtree(folder, ignore_errors=True)
