import os
import subprocess
import sys
from pathlib import Path

import pytest

from scumble.training.team import PATIENCE, Team, gather_team

# Written to a file by two processes under torchrun.
TOGETHER = """
import sys, time
from pathlib import Path
import torch
from scumble.training.team import gather_team

team = gather_team("cpu")
told = []
with team.first():
    if team.rank == 0:
        time.sleep(0.5)
    with open(sys.argv[1], "a") as file:
        file.write(f"turn of {team.rank}\\n")
told.append([team.any(False), team.any(team.rank == 1), team.any(False), team.any(True)])
told.append([team.same("photos"), team.same(f"photos of {team.rank}")])
backend = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
told.append(backend.options._timeout)
del backend  # held to the end, its threads would outlive the interpreter
Path(f"{sys.argv[1]}.{team.rank}").write_text(repr(told))
"""


def test_processes_take_turns_and_agree(tmp_path):
    file, script = tmp_path / "told", tmp_path / "together.py"
    script.write_text(TOGETHER)
    torchrun = str(Path(sys.executable).parent / "torchrun")
    subprocess.run(
        [torchrun, "--standalone", "--nproc-per-node", "2", str(script), str(file)],
        check=True,
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert file.read_text() == "turn of 0\nturn of 1\n"
    expected = repr([[False, True, False, True], [True, False], PATIENCE])
    for rank in (0, 1):
        assert Path(f"{file}.{rank}").read_text() == expected


def test_one_process_is_first_and_agrees_with_itself(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    team = gather_team("cpu")
    assert type(team) is Team
    with team.first():
        assert team.rank == 0
    assert [team.any(True), team.any(False), team.same("anything")] == [True, False, True]


def test_several_processes_without_accelerate_are_told_what_to_install(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    told = "^training in several processes needs accelerate; pip install 'scumble\\[train\\]'$"
    from scumble.errors import TrainingError

    with pytest.raises(TrainingError, match=told):
        gather_team("cpu")
