"""No kernel reads or writes out of bounds: the system ends a process at its first such step."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def guarded(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.engines.cpu.guarded", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made by Linux's mprotect")
@pytest.mark.parametrize("side", ["end", "start"])
def test_nothing_beyond_its_memory_is_touched(side):
    done = guarded("25", side)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made by Linux's mprotect")
def test_a_step_out_of_bounds_is_noticed():
    assert guarded("25", "end", "trespass").returncode == -signal.SIGSEGV
