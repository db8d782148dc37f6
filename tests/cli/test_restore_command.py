import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import scumble
from scumble.cli.app import app
from tests.restore.photos import image


def run(*arguments: str, expect: int = 0) -> Result:
    """Run the command in this process: a new one would take seconds each time."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300", "TERM": "dumb"})
    assert done.exit_code == expect, done.output
    return done


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my photos").mkdir()
    image(12, 16).save("my photos/a b.jpg")
    image(12, 16).save("my photos/c.png")
    network = scumble.build("edsr-x2", features=4, blocks=1)
    scumble.save(network, "small.safetensors")
    return Path("my photos")


MODEL = ("-n", "small.safetensors", "--engine", "reference")


def test_a_folder_goes_in_and_a_folder_comes_out(photos):
    done = run("restore", "-i", str(photos), "-o", "out", *MODEL)
    assert done.stdout.startswith("restored 2 files in ")
    assert "megapixels" in done.stdout
    assert done.stdout.endswith(", in out\n")
    assert done.stderr == ""
    assert sorted(path.name for path in Path("out").iterdir()) == [".scumble", "a b.jpg", "c.png"]


def test_without_an_output_results_go_to_restored(photos):
    run("restore", str(photos / "c.png"), *MODEL)
    assert Path("restored/c.png").exists()


def test_the_zoo_restores_by_default(photos):
    run("restore", str(photos / "c.png"), "-o", "big.png", "-s", "4", "--threads", "1")
    from PIL import Image

    with Image.open("big.png") as made:
        assert made.size == (64, 48)
    wrong = run("restore", str(photos), "-s", "3", expect=2)
    assert "the zoo has no network for x3, but " in wrong.stderr
    assert "name a file with -n" in wrong.stderr
    wrong = run("restore", str(photos), "-s", "4", *MODEL, expect=2)
    assert "x4 needs a network that enlarges by 4, got x2" in wrong.stderr


def test_a_dry_run_says_what_would_be_done_and_does_nothing(photos):
    Path("my photos/x.heic").write_bytes(b"")
    Path("my photos/notes.txt").write_bytes(b"")
    Path("my photos/inside").mkdir()
    told = run("restore", str(photos), "-o", "out", "--format", "webp", "--dry-run").stdout
    assert told.splitlines() == [
        "my photos/a b.jpg (16x12) -> out/a b.webp",
        "my photos/c.png (16x12) -> out/c.webp",
        "would fail: my photos/x.heic needs to be a PNG, JPEG, WebP, TIFF or BMP file, is HEIC; "
        "convert it",
        "left alone, no pictures: 1 file",
        "not looked into: 1 folder inside; add -r for that",
    ]
    assert not Path("out").exists()


def test_a_bad_file_makes_the_exit_code_1(photos):
    Path("my photos/bad.png").write_bytes(b"")
    done = run("restore", str(photos), "-o", "out", *MODEL, expect=1)
    assert "failed: my photos/bad.png needs to be a PNG" in done.stderr
    assert "failed: 1 file, listed in out/failed.jsonl" in done.stdout
    assert json.loads(Path("out/failed.jsonl").read_text())["source"] == "my photos/bad.png"


def test_what_is_there_is_refused_resumed_or_overwritten(photos):
    run("restore", str(photos), "-o", "out", *MODEL)
    wrong = run("restore", str(photos), "-o", "out", *MODEL, expect=2)
    assert wrong.stderr == (
        "scumble: out/a b.jpg and 1 more exists already; add --resume to keep what is done, or "
        "--overwrite to write it again\n"
    )
    again = run("restore", str(photos), "-o", "out", *MODEL, "--resume").stdout
    assert "skipped, done already: 2 files" in again
    told = run("restore", str(photos), "-o", "out", *MODEL, "--overwrite", "--json").stdout
    summary = json.loads(told)
    assert (summary["done"], summary["skipped"], summary["failed"]) == (2, 0, 0)
    assert 0 < summary["engine_busy"] <= 1
    both = run("restore", str(photos), "--resume", "--overwrite", expect=2)
    assert "take one" in both.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--format", "gif"), "a format is keep, png, jpg, jpeg, webp, tiff, got 'gif'"),
        (("--tile", "big"), "a tile is auto or a side in pixels, such as 256, got 'big'"),
        (("--engine", "gpuu"), "no engine named 'gpuu'"),
        (("-n", "crn-x4"), "there is no file crn-x4"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(photos, options, told):
    done = run("restore", str(photos), "-o", "out", *options, expect=2)
    assert told in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "address"),
    [(("--ray", "--json"), "auto"), (("--ray", "10.0.0.1:6379"), "10.0.0.1")],
)
def test_ray_takes_an_address_or_none(photos, monkeypatch, options, address):
    def refuse(**_):
        raise ConnectionError("nobody is there")

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr("scumble.restore.cluster.import_module", lambda name: ray)
    wrong = run("restore", str(photos), "-o", "out", *MODEL, *options, expect=2)
    assert f"no Ray cluster can be reached at {address}" in wrong.stderr


def test_ctrl_c_stops_and_says_how_to_go_on(photos):
    for number in range(60):
        image(60, 60, seed=number).save(f"my photos/{number}.png")
    command = [sys.executable, "-m", "scumble", "restore", str(photos), "-o", "out", *MODEL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(Path("out").glob("*.png")):
        time.sleep(0.01)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    told, wrong = process.communicate()
    assert process.returncode == 130, wrong
    assert "the same command with --resume goes on" in told
    assert wrong == ""
    assert not list(Path("out").rglob("*.part"))
    left = len(os.listdir("out")) - 1
    summary = json.loads(
        run("restore", str(photos), "-o", "out", *MODEL, "--resume", "--json").stdout
    )
    assert summary["skipped"] == left
    assert summary["done"] == 62 - left
