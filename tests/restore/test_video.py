import hashlib
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from scumble.errors import RestoreError
from scumble.restore import RESUME, Restorer
from scumble.restore import video as video_room
from tests.restore.photos import Nearest, nearest, repeated

pytestmark = pytest.mark.slow


av = pytest.importorskip("av", reason="needs PyAV: pip install 'scumble[video]'")


def picture(number: int, height: int, width: int) -> np.ndarray:
    down, across = np.mgrid[0:height, 0:width]
    return np.stack([down * 4, across * 3, down * 0 + number * 5], 2).astype(np.uint8)


def clip(path: Path, count=25, height=48, width=64, sound=True, form="yuv420p", times=None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as target:
        video = target.add_stream("libx264", rate=25, options={"crf": "5"})
        video.height, video.width, video.pix_fmt = height, width, form
        video.codec_context.time_base = Fraction(1, 1000)
        audio = target.add_stream("aac", rate=44100) if sound else None
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(picture(number, height, width), format="rgb24")
            frame.pts = times[number] if times else number * 40
            frame.time_base = Fraction(1, 1000)
            target.mux(video.encode(frame))
        target.mux(video.encode(None))
        for start in range(0, 44100 * count // 25 if sound else 0, 1024):
            wave = np.sin(np.arange(start, start + 1024) / 20, dtype=np.float32)[np.newaxis]
            frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 44100, start
            target.mux(audio.encode(frame))
        if sound:
            target.mux(audio.encode(None))
    return path


def frames(path: Path) -> tuple[list[np.ndarray], list[Fraction]]:
    with av.open(str(path)) as container:
        found = list(container.decode(video=0))
    return [f.to_ndarray(format="rgb24") for f in found], [f.pts * f.time_base for f in found]


def sound(path: Path) -> list[tuple[Fraction, bytes]]:
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(audio=0) if p.size]
        return [(p.pts * p.time_base, bytes(p)) for p in packets]


def test_frames_times_and_sound_come_out(tmp_path):
    times = [0, 40, 80, 200, 240] + [300 + 33 * n for n in range(20)]  # no steady rate
    source = clip(tmp_path / "clip.mp4", times=times)
    (result,) = nearest().folder(source, tmp_path / "out")
    assert result.status == "done", result.error
    (before, at), (after, then) = frames(source), frames(result.target)
    assert then == at
    for one, other in zip(before, after, strict=True):
        assert abs(repeated(one).astype(int) - other).mean() < 3
    assert sound(result.target) == sound(source)
    assert not (tmp_path / "out/.scumble/videos").exists()


@pytest.mark.parametrize(("name", "wanted"), [("a.mov", "a.mov"), ("a.mkv", "a.mkv")])
def test_containers_keep_their_kind(tmp_path, name, wanted):
    (result,) = nearest().folder(clip(tmp_path / name, 3), tmp_path / "out")
    assert result.target.name == wanted
    assert len(frames(result.target)[0]) == 3


def test_a_video_may_become_a_file_of_another_name(tmp_path):
    (result,) = nearest().folder(clip(tmp_path / "a.mp4", 3, sound=False), tmp_path / "big.mkv")
    assert result.target == tmp_path / "big.mkv"
    assert result.target.exists()


def test_odd_sizes_are_kept(tmp_path):
    class Same(Nearest):
        def forward(self, image):
            return image * 1

    source = clip(tmp_path / "a.mp4", 3, 35, 51, sound=False, form="yuv444p")
    (result,) = Restorer(Same(), engine="reference").folder(source, tmp_path / "out")
    assert result.status == "done", result.error
    assert frames(result.target)[0][0].shape == (35, 51, 3)


def test_a_stopped_video_goes_on_with_its_segments_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(video_room, "SEGMENT", 6)
    source = clip(tmp_path / "clip.mp4")
    (whole,) = nearest().folder(source, tmp_path / "whole")

    class Stop(BaseException):
        pass

    def stop(job, done):
        if done >= 15 * 48 * 64:  # in the third segment
            raise Stop

    with pytest.raises(Stop):
        list(nearest().folder(source, tmp_path / "out", told=stop))
    kept = list((tmp_path / "out").rglob("*.mp4"))
    assert len(kept) == 2
    restorer = nearest()
    counted = []
    run = restorer.runner.compiled.network.forward
    restorer.runner.compiled.network.forward = lambda image: counted.append(1) or run(image)
    (again,) = restorer.folder(source, tmp_path / "out", existing=RESUME)
    assert len(counted) == 25 - 12
    assert digest(again.target) == digest(whole.target)
    (once_more,) = nearest().folder(source, tmp_path / "out", existing=RESUME)
    assert once_more.status == "skipped"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_video_that_a_phone_held_upright_is_upright(tmp_path):
    if shutil.which("exiftool") is None:
        pytest.skip("needs exiftool (Debian: libimage-exiftool-perl)")
    source = clip(tmp_path / "a.mp4", 3, sound=False)
    command = ["exiftool", "-q", "-overwrite_original", "-Rotation=90", str(source)]
    subprocess.run(command, check=True)
    (result,) = nearest().folder(source, tmp_path / "out")
    made, wanted = frames(result.target)[0][0], np.rot90(picture(0, 48, 64), -1)
    assert abs(made.astype(int) - repeated(wanted)).mean() < 4


def test_what_is_no_video_is_named(tmp_path):
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    clip(tmp_path / "deep.mp4", 2, sound=False, form="yuv420p10le")
    batch = nearest().folder([tmp_path / "bad.mp4", tmp_path / "deep.mp4"], tmp_path / "out")
    bad, deep = batch
    assert "bad.mp4 is damaged or no video: Invalid data" in bad.error
    assert "deep.mp4 needs 8 bits per sample, holds 10 (HDR); convert it first" in deep.error


def test_without_pyav_the_fix_is_told(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(video_room, "import_module", missing)
    (tmp_path / "a.mp4").write_bytes(b"")
    with pytest.raises(RestoreError, match=r"PyAV; install it: pip install 'scumble\[video]'"):
        nearest().folder(tmp_path / "a.mp4", tmp_path / "out")
