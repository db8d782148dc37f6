import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from scumble.errors import RestoreError
from scumble.restore import OVERWRITE, RESUME, Form
from scumble.restore.store import MANIFEST
from tests.restore.photos import image, nearest


def photos(folder: Path, count: int, size: tuple[int, int] = (20, 30)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image(*size, seed=number).save(folder / f"photo {number:02}.jpg", quality=90)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder but the manifest, whose lines come as writers finish."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def statuses(batch) -> list[str]:
    return [result.status for result in batch]


def test_results_come_in_order_and_inputs_stay(tmp_path):
    before = content(photos(tmp_path / "in", 9))
    batch = nearest().folder(tmp_path / "in", tmp_path / "out")
    assert [result.source.name for result in batch] == sorted(before)
    assert content(tmp_path / "in") == before
    summary = batch.summary()
    assert (summary["files"], summary["done"], summary["failed"]) == (9, 9, 0)
    assert summary["megapixels"] == round(9 * 20 * 30 * 4 / 1e6, 3)
    assert 0 < summary["engine_busy"] <= 1


def test_a_bad_file_is_named_and_counted_and_the_rest_is_done(tmp_path):
    photos(tmp_path / "in", 3)
    (tmp_path / "in" / "photo 01.jpg").write_bytes(b"no picture")
    (tmp_path / "in" / "funny.gif").write_bytes(b"GIF89a")
    image(9, 9, "RGB").convert("CMYK").save(tmp_path / "in" / "print.jpg")
    image(9, 9).save(
        tmp_path / "in" / "moving.webp", save_all=True, append_images=[image(9, 9, seed=1)]
    )
    batch = nearest().folder(tmp_path / "in", tmp_path / "out")
    assert statuses(batch) == ["failed", "failed", "done", "failed", "done", "failed"]
    lines = (tmp_path / "out/failed.jsonl").read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    told = {Path(one["source"]).name: one["error"].replace(f"{tmp_path}/", "") for one in listed}
    assert told == {
        "funny.gif": "in/funny.gif needs to be a PNG, JPEG, WebP, TIFF or BMP file, is GIF; "
        "convert it",
        "moving.webp": "in/moving.webp needs to hold one picture, holds 2; save the one you mean "
        "by itself",
        "photo 01.jpg": "in/photo 01.jpg needs to be a PNG, JPEG, WebP, TIFF or BMP file, is "
        "none, or damaged at its beginning",
        "print.jpg": "in/print.jpg needs to be grey or RGB with 8 or 16 bits, is CMYK; convert it "
        "first",
    }
    for name in told:
        (tmp_path / "in" / name).unlink()
    assert set(statuses(nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME))) == {
        "skipped"
    }
    assert not (tmp_path / "out/failed.jsonl").exists()


def test_the_list_of_failures_goes_through_no_link(tmp_path):
    photos(tmp_path / "in", 1)
    (tmp_path / "in" / "photo 00.jpg").write_bytes(b"")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/failed.jsonl").symlink_to(tmp_path / "mine")
    assert statuses(nearest().folder(tmp_path / "in", tmp_path / "out")) == ["failed"]
    assert (tmp_path / "mine").read_text() == "mine"
    assert len((tmp_path / "out/failed.jsonl").read_text().splitlines()) == 1


def test_files_too_long_for_photos_are_not_read(tmp_path):
    photos(tmp_path / "in", 1)
    with (tmp_path / "in" / "photo 00.jpg").open("r+b") as file:
        file.truncate(3_000_000_000)  # a hole, which takes no room on the disk
    (result,) = nearest().folder(tmp_path / "in", tmp_path / "out")
    assert "needs to be a file of at most 2 GB, has 3.0; it is no photo" in result.error


def test_large_pictures_are_refused(tmp_path):
    photos(tmp_path / "in", 1, (1000, 1100))
    form = Form(max_megapixels=1)
    (result,) = nearest().folder(tmp_path / "in", tmp_path / "out", form=form)
    assert result.error.endswith(
        "photo 00.jpg needs to hold at most 1 megapixels, holds 1.1 (1100x1000); raise "
        "--max-megapixels if it is right"
    )


def test_going_on_does_only_what_is_left(tmp_path):
    photos(tmp_path / "in", 4)
    batch = nearest().folder(tmp_path / "in", tmp_path / "out")
    next(batch), next(batch)
    batch.close()
    again = statuses(nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME))
    assert again[:2] == ["skipped", "skipped"]
    assert set(again[2:]) <= {"done", "skipped"}


def test_going_on_sees_what_has_changed(tmp_path):
    photos(tmp_path / "in", 4)
    go = lambda **more: nearest().folder(  # noqa: E731
        tmp_path / "in", tmp_path / "out", existing=RESUME, **more
    )
    assert statuses(go()) == ["done"] * 4
    image(20, 30, seed=9).save(tmp_path / "in" / "photo 00.jpg")  # another photo of this name
    (tmp_path / "out" / "photo 01.jpg").unlink()
    (tmp_path / "out" / "photo 02.jpg").write_bytes(b"edited")  # by its owner: not ours to replace
    batch = list(go())
    assert [result.status for result in batch] == ["done", "done", "failed", "skipped"]
    assert "photo 02.jpg was changed since it was written; move it away" in batch[2].error
    assert (tmp_path / "out" / "photo 02.jpg").read_bytes() == b"edited"
    assert statuses(go(form=Form(quality=50))) == ["done", "done", "failed", "done"]
    overwritten = nearest().folder(tmp_path / "in", tmp_path / "out", existing=OVERWRITE)
    assert statuses(overwritten) == ["done"] * 4


def test_another_network_is_another_result(tmp_path):
    import scumble
    from scumble.restore import Restorer

    photos(tmp_path / "in", 1)
    for expected in ("done", "skipped"):
        restorer = Restorer(scumble.build("edsr-x2", features=4, blocks=1), engine="reference")
        network = restorer.runner.network
        for parameter in network.parameters():
            parameter.data.fill_(0.01)
        batch = restorer.folder(tmp_path / "in", tmp_path / "out", existing=RESUME)
        assert statuses(batch) == [expected]
    assert statuses(nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME)) == [
        "done"
    ]


def test_two_processes_do_not_share_a_folder(tmp_path):
    photos(tmp_path / "in", 2)
    batch = nearest().folder(tmp_path / "in", tmp_path / "out")
    next(batch)
    with pytest.raises(RestoreError, match="another process is writing results to"):
        nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME)
    batch.close()


def test_a_line_that_a_kill_cut_short_is_no_line(tmp_path):
    photos(tmp_path / "in", 2)
    list(nearest().folder(tmp_path / "in", tmp_path / "out"))
    manifest = tmp_path / "out" / ".scumble" / MANIFEST
    first, last = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(first + last[:50])
    (tmp_path / "out" / json.loads(last)["target"]).unlink()  # the line comes before the result
    batch = list(nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME))
    assert {result.target.name: result.status for result in batch} == {
        json.loads(first)["target"]: "skipped",
        json.loads(last)["target"]: "done",
    }
    assert manifest.read_bytes() == first + last[:50] + b"\n" + last


def test_a_result_of_ours_without_a_line_is_not_replaced(tmp_path):
    photos(tmp_path / "in", 1)
    list(nearest().folder(tmp_path / "in", tmp_path / "out"))
    (tmp_path / "out" / ".scumble" / MANIFEST).unlink()
    with pytest.raises(RestoreError, match="was not written by scumble restore"):
        nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME)


def test_the_line_comes_before_the_result(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    photos(tmp_path / "in", 1)
    with monkeypatch.context() as patch:
        patch.setattr("scumble.restore.store.Store._note", kill)
        with pytest.raises(Killed):
            list(nearest().folder(tmp_path / "in", tmp_path / "out"))
    assert not (tmp_path / "out" / "photo 00.jpg").exists()


def test_times_are_kept_when_asked_for(tmp_path):
    photos(tmp_path / "in", 1)
    os.utime(tmp_path / "in" / "photo 00.jpg", ns=(10**18, 10**18))
    (result,) = nearest().folder(tmp_path / "in", tmp_path / "out", form=Form(keep_times=True))
    assert result.target.stat().st_mtime_ns == 10**18


def test_a_full_disk_ends_the_batch(tmp_path, monkeypatch):
    photos(tmp_path / "in", 3)
    batch = nearest().folder(tmp_path / "in", tmp_path / "out")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scumble.restore.pipeline.write", full)
    with pytest.raises(RestoreError, match="No space left on device; mend that and go on with"):
        list(batch)
    assert not list((tmp_path / "out").glob("*.jpg"))


SLOW = """
    import sys, time, torch
    from pathlib import Path
    sys.path.insert(0, {root!r})
    from tests.restore.photos import Nearest
    from scumble.restore import RESUME, Restorer

    class Slow(Nearest):
        def forward(self, image):
            time.sleep(0.01)
            return super().forward(image)

    Slow.__name__ = "Nearest"
    restorer = Restorer(Slow(), engine="reference")
    print("ready", flush=True)
    for result in restorer.folder(sys.argv[1], sys.argv[2], existing=RESUME):
        print(result.status, flush=True)
"""


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path):
    photos(tmp_path / "in", 30)
    script = tmp_path / "slow.py"
    script.write_text(textwrap.dedent(SLOW).format(root=str(Path(__file__).parents[2])))

    def start(out: Path) -> subprocess.Popen:
        command = [sys.executable, str(script), str(tmp_path / "in"), str(out)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        return process

    whole = start(tmp_path / "whole")
    assert whole.communicate()[0].split() == ["done"] * 30
    for pause in (0.03, 0.11, 0.2):
        process = start(tmp_path / "killed")
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = len(list((tmp_path / "killed").glob("*.jpg")))
    assert done < 30
    last = start(tmp_path / "killed").communicate()[0].split()
    assert len(last) == 30
    assert last.count("skipped") == done
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    shutil.rmtree(tmp_path / "killed")
