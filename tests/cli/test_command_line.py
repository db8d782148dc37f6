import json
import os
import pickle
import subprocess
import sys

import pytest
import torch

import scumble


def run(*arguments: str, expect: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, "-m", "scumble", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    )
    assert done.returncode == expect, done.stderr
    return done


def test_inspect_prints_the_table():
    out = run("inspect", "carn-x4", "--size", "320x180").stdout
    assert "91.2154 GMACs  paper" in out
    assert "up.0" in out


def test_inspect_prints_json():
    found = json.loads(run("inspect", "edsr", "--pattern", "8:32", "--json").stdout)
    assert found["macs"]["paper"] == pytest.approx(30.09e9, abs=0.02e9)


def test_inspect_reads_a_file(tmp_path):
    path = tmp_path / "pruned.safetensors"
    network = scumble.build("edsr-x2", features=32, blocks=1)
    scumble.save(scumble.finalize(scumble.sparsify(network, scumble.OneShot("3:32"))), path)
    out = run("inspect", str(path), "--size", "64x48").stdout
    assert out.startswith("edsr-x2 on 64x48\n")
    assert "3:32" in out


def test_a_network_may_be_written_with_arguments_and_in_capitals():
    found = json.loads(run("inspect", "EDSR-X2,features=16,blocks=1", "--json").stdout)
    network = scumble.build("edsr-x2", features=16, blocks=1)
    assert found == scumble.inspect(network).to_json()


def test_the_network_of_a_state_dict_may_be_written_with_arguments(tmp_path):
    path = tmp_path / "plain.pth"
    torch.save(scumble.build("edsr-x2", features=16, blocks=1).state_dict(), path)
    assert "--network" in run("inspect", str(path), expect=2).stderr
    out = run("inspect", str(path), "--network", "edsr-x2,features=16,blocks=1").stdout
    assert out.startswith("edsr-x2 on 320x180\n")


def test_a_folder_called_like_a_network_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "carn-x4").mkdir()
    assert run("inspect", "carn-x4", "--size", "9x9").stdout.startswith("carn-x4 on 9x9\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["inspect", "crn"], "scumble: no network named 'crn'. Did you mean 'carn' or 'rfdn'?"),
        (["inspect", "carn-x7"], "scumble: a scale is 2, 3 or 4, got 7"),
        (["inspect", "carn", "--pattern", "9:8"], "scumble: a pattern keeps 1 to 8 of 8 weights"),
        (["inspect", "carn", "--pattern", "3:100"], "found none; choose a smaller m"),
        (["inspect", "carn", "--size", "320"], "a size is WIDTHxHEIGHT in pixels, such as 320x180"),
        (["inspect", "carn", "--size", "0x9"], "a size is WIDTHxHEIGHT in pixels"),
        (
            ["inspect", "rfdn", "--size", "9x9"],
            "scumble: Rfdn cannot be run on an RGB picture of 9x9",
        ),
        (["inspect", "no/such.safetensors"], "scumble: there is no file no/such.safetensors"),
        (["inspect", "carn", "--sise", "1x1"], "No such option: --sise"),
        (["inspect", "carn-x4.safetensors"], "scumble: there is no file carn-x4.safetensors"),
        (["inspect", "a" * 300], f"scumble: no network named '{'a' * 300}'. Known: carn"),
        (["inspect", ""], "scumble: a network needs a name, such as carn-x4, got ''"),
        (["inspect", "carn", "--size", "1000001x9"], "a size is at most 1000000 pixels a side"),
        (["inspect", "carn", "--size", "9x" + "9" * 40], "a size is at most 1000000 pixels a side"),
        (
            ["inspect", "carn", "--network", "edsr"],
            "got the network carn itself; leave --network out",
        ),
        (["inspect", "carn", "--pad-groups"], "--pad-groups needs a pattern to count, got none"),
        (["inspect", "edsr,features"], "such as edsr-x2,features=16,blocks=1, got 'edsr,features'"),
        (["inspect", "edsr,fatures=1"], "no argument of edsr named 'fatures'. Did you mean"),
        (["inspct", "carn"], "Did you mean 'inspect'?"),
        (["inspect"], "Missing argument"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(arguments, sentence):
    done = run(*arguments, expect=2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_a_folder_or_a_pickle_with_code_is_refused(tmp_path):
    assert "is a folder" in run("inspect", str(tmp_path), expect=2).stderr
    mark, bomb = tmp_path / "ran", tmp_path / "bomb.pth"

    class Bomb:
        def __reduce__(self):
            return os.system, (f"touch {mark}",)

    bomb.write_bytes(pickle.dumps(Bomb()))
    done = run("inspect", str(bomb), "--network", "carn", expect=2)
    assert len(done.stderr.splitlines()) == 1
    assert not mark.exists()


def test_a_state_dict_of_another_network_says_how_it_differs(tmp_path):
    torch.save({"conv.weight": torch.ones(3)}, tmp_path / "other.pth")
    done = run("inspect", str(tmp_path / "other.pth"), "--network", "carn", expect=2)
    assert "does not hold this Carn: head.weight, head.bias," in done.stderr
    assert "conv.weight unexpected" in done.stderr


def test_debug_shows_the_traceback():
    assert "Traceback" in run("--debug", "inspect", "crn", expect=1).stderr


def test_help_does_not_wait_for_torch():
    code = "import sys, scumble.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "inspect" in run("--help").stdout
    assert run("--version").stdout.strip() == scumble.__version__
