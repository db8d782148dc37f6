import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import scumble
from scumble.bench import case_of
from scumble.bench.process import environment, started
from scumble.bench.stage import Stage
from scumble.errors import EngineError, NetworkError
from tests.networks import Tiny


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    network = scumble.build("edsr-x2", features=8, blocks=1)
    return Stage(case_of("small", network), (16, 16), tmp_path_factory.mktemp("bench") / "case")


def test_a_process_runs_and_shows_its_picture_and_ends_with_its_block(stage):
    with started("it", "torch", 1, stage.files) as child:
        assert child.run(2) > 0
        assert stage.difference(child.picture(), "it") < 1e-5
        assert child.ready_seconds > 0
        most = child.peak_mib()
        assert most is None or most >= (child.base_mib or 0)
        process = child._process
    assert process.returncode is not None


def test_a_process_ends_when_something_goes_wrong_meanwhile(stage):
    held = []

    def interrupted() -> None:
        with started("it", "reference", 1, stage.files) as child:
            held.append(child._process)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert held[0].returncode == -signal.SIGKILL


def test_a_crash_is_told_by_its_last_words(stage, tmp_path):
    files = replace(stage.files, picture=tmp_path / "none.npy")
    with (
        pytest.raises(EngineError, match=r"^it stopped: FileNotFoundError: .*none\.npy'$"),
        started("it", "torch", 1, files),
    ):
        pass


def test_a_killed_process_is_told(stage):
    with started("it", "reference", 1, stage.files) as child:
        os.kill(child._process.pid, signal.SIGKILL)
        sentence = "it stopped: it was killed by signal 9; a large network may need more memory"
        with pytest.raises(EngineError, match=sentence):
            child.run(1)


def test_what_scumble_refuses_there_is_refused_here(stage, tmp_path):
    files = replace(stage.files, network=tmp_path / "none.safetensors")
    with (
        pytest.raises(EngineError, match=r"^it: .*none\.safetensors"),
        started("it", "reference", 1, files),
    ):
        pass


def test_peers_keep_freed_memory_and_threads_are_counted():
    variables = environment("torch", 2)
    assert variables["OMP_NUM_THREADS"] == "2"
    assert "mmap_threshold=4294967296" in variables["GLIBC_TUNABLES"]
    assert "GLIBC_TUNABLES" not in environment("cpu", 2)


def test_another_picture_than_the_reference_is_refused(stage):
    made = stage.expected.copy()
    made[0, 0, 0, 0] += 0.1 * (made.max() - made.min())
    with pytest.raises(EngineError, match="it made another picture than the reference, off by 1"):
        stage.difference(made, "it")
    made[0, 0, 0, 0] = np.nan
    with pytest.raises(EngineError, match="off by nan"):
        stage.difference(made, "it")
    with pytest.raises(EngineError, match=r"it made a picture of \(1, 3, 9, 9\), not "):
        stage.difference(made[:, :, :9, :9], "it")


def test_a_network_that_scumble_cannot_build_is_refused(tmp_path):
    sentence = "timing needs a network that scumble can build by name in other processes, got mine"
    with pytest.raises(NetworkError, match=sentence):
        Stage(case_of("mine", Tiny()), (12, 10), tmp_path / "case")
