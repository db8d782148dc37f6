import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from scumble.compare import claims
from scumble.compare.claims import ClaimLostError, Holder, holder_of, take


def files(cell):
    return sorted(os.listdir(cell / "claims"))


def elsewhere(cell, number: int, age: float = 0.0) -> None:
    """Leave a claim as a process of another machine does."""
    path = cell / "claims" / f"{number:06}"
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = replace(Holder.me(), machine="another", host="another")
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - age
    os.utime(path, (then, then))


def test_a_cell_is_taken_once_and_again_when_it_is_free(tmp_path):
    assert holder_of(tmp_path) is None
    with take(tmp_path) as claim:
        assert take(tmp_path) is None
        assert holder_of(tmp_path) == claim.holder
        assert claim.holder.process == os.getpid()
    assert holder_of(tmp_path) is None
    with take(tmp_path):
        assert files(tmp_path) == ["000001", "000002"]


TAKE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from scumble.compare.claims import take
assert take(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


def test_the_claim_of_a_killed_process_is_taken_over_at_once(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_AND_DIE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"taken\n"
    assert take(tmp_path) is None
    assert holder_of(tmp_path).process == process.pid
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with take(tmp_path):
        assert files(tmp_path) == ["000001", "000002"]


def test_a_number_that_another_process_has_by_now_is_no_sign_of_life(tmp_path):
    path = tmp_path / "claims" / "000001"
    path.parent.mkdir()
    path.write_text(json.dumps(asdict(replace(Holder.me(), born="1"))))
    assert take(tmp_path) is not None


def test_a_process_elsewhere_is_dead_when_its_heart_has_stopped(tmp_path):
    elsewhere(tmp_path, 1, age=100)
    assert take(tmp_path, patience=200) is None
    assert holder_of(tmp_path, patience=200).host == "another"
    claim = take(tmp_path, patience=50)
    assert claim.path.name == "000002"
    assert files(tmp_path) == ["000001", "000002"]


def test_a_claim_beats(tmp_path):
    claim = take(tmp_path, beat=0.01)
    os.utime(claim.path, (1, 1))
    with claim:
        deadline = time.monotonic() + 10
        while claim.path.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert claim.path.stat().st_mtime > 1


def test_a_claim_that_was_cut_short_is_somebodys_until_it_is_old(tmp_path):
    path = tmp_path / "claims" / "000001"
    path.parent.mkdir()
    path.write_text("{")
    assert take(tmp_path) is None
    assert holder_of(tmp_path).host == "an unknown machine"
    os.utime(path, (1, 1))
    assert take(tmp_path).path.name == "000002"


def test_whoever_looked_at_the_same_time_comes_too_late(tmp_path, monkeypatch):
    """Between the look at who holds a cell and the taking, another takes it."""
    look = claims._holder

    def slow(folder, number, patience):
        found = look(folder, number, patience)
        elsewhere(tmp_path, number + 1)
        return found

    monkeypatch.setattr(claims, "_holder", slow)
    assert take(tmp_path) is None
    assert files(tmp_path) == ["000001"]


def test_who_was_taken_for_dead_notices(tmp_path):
    with take(tmp_path) as claim:
        claim.check()
        elsewhere(tmp_path, 2)
        assert claim.lost
        with pytest.raises(ClaimLostError, match="was taken over by another process"):
            claim.check()
    assert holder_of(tmp_path).host == "another"  # its end did not free what is not its own


# Each takes the cell again and again, and while it has it looks whether a living one is inside.
CROWD = """
import os, sys, time
from pathlib import Path
from scumble.compare.claims import take
cell, until = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
inside, mine = cell / "inside", str(os.getpid())
while time.monotonic() < until:
    claim = take(cell)
    if claim is None:
        continue
    with claim:
        other = inside.read_text() if inside.exists() else ""
        if other and Path(f"/proc/{other}/stat").exists():
            if Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                (cell / f"both-{mine}-{other}").touch()
        inside.write_text(mine)
        time.sleep(0.002)
        if inside.read_text() != mine:
            (cell / f"lost-{mine}").touch()
        inside.unlink()
        with (cell / "turns").open("a") as file:
            file.write(".")
"""


@pytest.mark.slow
def test_no_two_of_a_crowd_are_ever_inside_though_some_are_killed(tmp_path):
    def start():
        return subprocess.Popen([sys.executable, "-c", CROWD, str(tmp_path), "4"])

    chance = random.Random(5)
    crowd = [start() for _ in range(4)]
    for _ in range(6):
        time.sleep(0.3 + 0.2 * chance.random())
        victim = crowd.pop(chance.randrange(len(crowd)))
        victim.kill()
        victim.wait()
        crowd.append(start())
    for process in crowd:
        assert process.wait(60) == 0
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found in (["claims", "turns"], ["claims", "inside", "turns"])
    assert len((tmp_path / "turns").read_text()) > 20
