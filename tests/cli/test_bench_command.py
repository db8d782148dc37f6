import json

import pytest
import torch
from typer.testing import CliRunner

import scumble
from scumble.cli.app import app
from tests.cli.test_command_line import run

SMALL = "edsr-x2,features=32,blocks=1"


def told_by(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_bench_prints_a_table_and_writes_everything(tmp_path):
    path = tmp_path / "figures.json"
    out = run(
        *("bench", "-n", SMALL, "--size", "16x16", "--threads", "1", "--rounds", "1"),
        *("--engines", "reference,torch", "--pattern", "2:32", "--json", str(path)),
    ).stdout
    assert f"{SMALL} 2:32 on 16x16:" in out
    assert "torch" in out
    told = json.loads(path.read_text())
    assert [row["engine"] for row in told["rows"]] == ["reference", "torch"]
    assert told["rows"][0]["macs"] < told["rows"][0]["dense_macs"]
    assert told["command"].startswith(("scumble bench", "__main__.py bench"))


def test_bench_explains_how_an_engine_runs_networks(tmp_path):
    path = tmp_path / "small.safetensors"
    scumble.save(scumble.build("edsr-x2", features=32, blocks=1), path)
    out = told_by(
        *("bench", "-n", SMALL, "-n", str(path), "--engines", "torch,reference", "--explain"),
        *("--pattern", "2:32,dense", "--threads", "1"),
    )
    for name in (SMALL, path.name):
        for pattern in ("2:32", "dense"):
            assert f"{name} {pattern}, reference:\nEdsr runs in PyTorch" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--engines", "refrence"],
            "scumble: no engine named 'refrence'. Did you mean 'reference'",
        ),
        (["--engines", "torch", "--explain"], "scumble: --explain needs an engine of scumble ("),
        (["--engines", "torch", "--threads", "0"], "scumble: timing needs 1 to "),
        (["--engines", "torch", "--threads", "x"], "threads are whole numbers, such as 1,2, got"),
        (["--engines", ","], "a list has at least one word, got ','"),
        (["--engines", "torch", "--size", "9"], "a size is WIDTHxHEIGHT in pixels"),
        (["--engines", "torch", "--pattern", "9"], "scumble: a pattern is written N:M"),
        (["--engines", "torch", "--json", "no/a.json"], "scumble: --json needs a file in a folder"),
        (["--engines", "torch", "--network", "carn"], "itself; leave --network out"),
    ],
)
def test_wrong_use_is_one_sentence(arguments, sentence):
    done = CliRunner().invoke(app, ["bench", "-n", SMALL, "--threads", "1", *arguments])
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_engines_are_listed_with_what_they_say_to_a_network(tmp_path):
    assert "reference runs it on cpu: Runs the network as it is." in told_by("engines")
    told = json.loads(told_by("engines", "-n", "carn-x4", "--json"))
    assert told["network"] == "carn-x4"
    assert told["machine"]["cores"] >= 1
    assert "cpu" in told["engines"]["reference"]["runs_on"]
    torch.save(scumble.build("edsr-x2", blocks=1).state_dict(), tmp_path / "plain.pth")
    done = CliRunner().invoke(app, ["engines", "-n", str(tmp_path / "plain.pth")])
    assert done.exit_code == 2
    assert "say which network it belongs to" in done.stderr
    told = told_by("engines", "-n", str(tmp_path / "plain.pth"), "--network", "edsr-x2,blocks=1")
    assert "reference runs it on cpu" in told
