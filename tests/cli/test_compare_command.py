import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

from typer.testing import CliRunner

from scumble.cli.app import app
from scumble.compare import grid_names
from tests.compare.grids import write_grid
from tests.training.photos import make_photos


def run(*arguments: str, expect: int = 0) -> SimpleNamespace:
    done = CliRunner(env={"TERM": "dumb"}).invoke(app, arguments)
    assert done.exit_code == expect, done.stderr
    return SimpleNamespace(stdout=done.stdout, stderr=done.stderr)


def test_our_grids_are_listed_with_what_they_are_about():
    out = run("compare", "--list").stdout
    assert [line.split()[0] for line in out.splitlines()] == grid_names()
    assert "table2-carn-x4  CARN x4 at 1/4, 1/8 and 1/16 by four methods" in out


def test_compare_and_report_go_from_a_grid_to_a_page(tmp_path):
    photos = make_photos(tmp_path / "photos", count=3)
    grid = str(write_grid(tmp_path / "grid.yaml", photos, methods=["oneshot", "nonsense"]))
    command = ("compare", grid, "--data", str(photos), "-o", str(tmp_path / "out"))
    listed = run(*command, "--dry-run").stdout
    assert ["edsr-x2_oneshot_1-2_seed0", "waiting"] in [
        line.split()[:2] for line in listed.splitlines()
    ]
    assert "no method named 'nonsense'." in listed
    assert "the time is known once a cell has run" in listed
    done = run(*command, expect=1)
    assert "edsr-x2   One-shot   1/2" in done.stdout
    assert "edsr-x2_nonsense_1-2_seed0 failed: no method named 'nonsense'." in done.stdout
    assert "edsr-x2_oneshot_1-4_seed0: done" in done.stderr
    found = json.loads(run(*command, "--json", expect=1).stdout)
    assert [cell["state"] for cell in found["cells"]] == ["done", "failed"] * 2
    listed = json.loads(run(*command, "--dry-run", "--json").stdout)
    assert [cell["steps"] for cell in listed["cells"]] == [0, 12, 0, 12]
    page = tmp_path / "page.html"
    assert run("report", str(tmp_path / "out"), "-o", str(page)).stdout == f"{page}\n"
    assert page.read_text().startswith("<!doctype html>")


def test_wrong_use_of_compare_and_report_is_one_sentence(tmp_path):
    told = " ".join(run("compare", "tiny", expect=2).stderr.replace("│", " ").split())
    assert "compare needs -o FOLDER; scumble compare --list names our grids" in told
    told = " ".join(run("compare", "-o", "x", expect=2).stderr.replace("│", " ").split())
    assert "compare needs a grid or recipes" in told
    wrong = run("compare", "tiny", "-o", str(tmp_path / "out"), expect=2).stderr
    assert "scumble: compare needs pictures to score on, got none; give --data FOLDER" in wrong
    wrong = run("report", str(tmp_path / "none"), "-o", str(tmp_path / "p.html"), expect=2).stderr
    assert wrong == f"scumble: there is no file {tmp_path / 'none'}\n"


def test_a_first_kill_saves_and_ends_and_the_same_command_goes_on(tmp_path):
    photos = make_photos(tmp_path / "photos", count=3)
    grid = write_grid(tmp_path / "grid.yaml", photos, set=["train.steps=100000"], budgets=["1/4"])
    command = [sys.executable, "-m", "scumble", "compare", str(grid), "--data", str(photos)]
    command += ["-o", str(tmp_path / "out"), "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    log = tmp_path / "out" / "cells" / "edsr-x2_oneshot_1-4_seed0" / "log.jsonl"
    while not log.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (cell,) = json.loads(out)["cells"]
    assert cell["state"] == "stopped"
    assert cell["told"].startswith("after step ")
