import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.test_command_line import run
from tests.training.photos import make_photos, small_recipe


def test_a_run_that_is_stopped_ends_with_130_and_goes_on_later(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(small_recipe(make_photos(tmp_path / "photos"), steps=4000).to_yaml())
    arguments = ["train", str(file), "-o", str(tmp_path / "run"), "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "scumble", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    while not (tmp_path / "run" / "state.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped after step" in out
    assert not (tmp_path / "run" / "network.safetensors").exists()


def test_photos_left_out_show_in_the_exit_code(tmp_path):
    photos, file = make_photos(tmp_path / "photos"), tmp_path / "mine.yaml"
    (photos / "bad.png").write_bytes(b"no picture")
    file.write_text(small_recipe(photos, steps=2).to_yaml())
    done = run("train", str(file), "-o", str(tmp_path / "run"), expect=1)
    assert "bad.png" in done.stderr
    assert "\n1 photo was left out\n" in done.stderr
    assert (tmp_path / "run" / "network.safetensors").exists()


def test_several_processes_speak_with_one_voice(tmp_path):
    photos, file = make_photos(tmp_path / "photos"), tmp_path / "mine.yaml"
    (photos / "bad.png").write_bytes(b"no picture")
    file.write_text(small_recipe(photos, steps=2).to_yaml())
    torchrun = str(Path(sys.executable).parent / "torchrun")
    arguments = [torchrun, "--standalone", "--nproc-per-node", "2", "-m", "scumble", "train"]
    arguments += [str(file), "-o", str(tmp_path / "run"), "--device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for code, line in ((1, "1 photo was left out"), (0, "is done")):
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == code
        assert (done.stdout + done.stderr).count(line) == 1
    assert (tmp_path / "run" / "network.safetensors").exists()


def test_check_finds_names_and_budgets_that_cannot_work():
    for change, sentence in (
        ("network.name=crn", "no network named 'crn'. Did you mean 'carn'"),
        ("prune.method=slss", "no method named 'slss'. Did you mean 'sls'"),
        ("prune.budget=9/8", "prune.budget"),
    ):
        done = run("recipe", "check", "carn-x4-8th", "--set", change, expect=2)
        assert sentence in done.stderr


def test_a_pruned_network_is_not_pruned_again(tmp_path):
    import scumble

    network = scumble.build("edsr-x2", features=16, blocks=1)
    pruned = scumble.finalize(scumble.sparsify(network, scumble.OneShot("2:16")))
    scumble.save(pruned, tmp_path / "n.safetensors")
    arguments = ("prune", str(tmp_path / "n.safetensors"), "--data", str(tmp_path))
    done = run(*arguments, "-o", str(tmp_path / "run"), expect=2)
    assert "is pruned already, and pruning starts from a dense network" in done.stderr
