"""What may happen around an engine: threads, forks, signals, other processes, damage, want."""

import gc
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import scumble
from scumble.engines.cpu import kernels as loaded
from scumble.errors import EngineError
from tests.engines.cpu.test_whole_networks import error, lively, picture, pruned

SMALL = {"features": 32, "blocks": 1}
# Another process that compiles a network, and what all of them begin with.
BEGIN = """
import gc, os, random, resource, signal, sys, threading, time
import torch, scumble
from scumble.errors import EngineError
from tests.engines.cpu.test_whole_networks import error, lively, picture, pruned
torch.set_num_threads(1)
torch.manual_seed(0)
network = pruned(lively("edsr-x2", features=32, blocks=1), "4:32")
engine = scumble.compile(network, "cpu", threads=2)
small = picture(0, 40, 50)
before = engine(small)
assert error(engine, network, small) < 1e-5
"""


def start(code: str, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def ends_well(process: subprocess.Popen) -> None:
    try:
        out, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it hangs after {process.communicate()[0]}") from None
    assert (process.returncode, out.split()[-1:]) == (0, ["fine"]), errors[-2000:]


@pytest.fixture(name="network", scope="module")
def small_network():
    torch.manual_seed(0)
    return pruned(lively("edsr-x2", **SMALL), "4:32")


@pytest.fixture(name="engine", scope="module")
def small_engine(network):
    return scumble.compile(network, "cpu", threads=2)


def test_several_threads_may_call_one_engine(network, engine):
    other = scumble.compile(network, "cpu", threads=2)
    pictures = [picture(kind, 10 + 7 * kind, 64 - 5 * kind) for kind in range(6)]
    wanted = [engine(one) for one in pictures]
    wrong: list[int] = []

    def call(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            at = chance.randrange(len(pictures))
            made = (engine if chance.random() < 0.7 else other)(pictures[at])
            if not torch.equal(made, wanted[at]):
                wrong.append(at)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compiling_at_the_same_time_in_several_threads_is_right():
    networks = [pruned(lively("carn-x2", features=32), f"{n}:32") for n in (1, 2, 3, 5)]
    given = picture(0, 20, 30)
    errors: list[float] = []
    threads = [
        threading.Thread(
            target=lambda one=one: errors.append(error(scumble.compile(one, "cpu", 1), one, given))
        )
        for one in networks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == len(networks)
    assert max(errors) < 1e-5


FORKED = (
    "the threads of an engine do not survive a fork; compile the network in the new process, or "
    'start processes with multiprocessing\'s "spawn"'
)
FORK = """
long = picture(0, 300, 400)
for busy in (False, True):
    if busy:
        thread = threading.Thread(target=lambda: [engine(long) for _ in range(5)], daemon=True)
        thread.start()
        time.sleep(0.05)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            engine(small)
            os._exit(1)
        except EngineError as refused:
            os._exit(0 if str(refused) == FORKED else 2)
    code = os.waitpid(child, 0)[1]
    assert code == 0, f"{code} of a child forked {'while it ran' if busy else 'at rest'}"
    assert torch.equal(engine(small), before)
print("fine")
"""


def test_a_fork_gives_a_clear_error_and_the_parent_goes_on():
    ends_well(start(f"FORKED = {FORKED!r}\n{FORK}"))


INTERRUPT = """
long = picture(0, 400, 700)
engine(long)
start = time.perf_counter()
wanted = engine(long)
whole = time.perf_counter() - start
for signals in (1, 3):
    def send():
        time.sleep(0.05 * whole)
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        sent.set()
    sent = threading.Event()
    try:
        threading.Thread(target=send, daemon=True).start()
        engine(long)
        sys.exit("it was not interrupted")
    except KeyboardInterrupt:
        pass
    while not sent.is_set():
        try:
            sent.wait()
        except KeyboardInterrupt:
            pass
    assert torch.equal(engine(small), before)
    assert torch.equal(engine(long), wanted)
print("fine")
"""


def test_ctrl_c_ends_a_long_run_and_the_engine_goes_on():
    ends_well(start(INTERRUPT))


STORM = """
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
chance, interrupted = random.Random(0), 0
for attempt in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(2e-5, 2e-3))
        made = engine(small)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
        continue
    assert torch.equal(made, before), attempt
print(interrupted, flush=True)
assert interrupted > 50
assert torch.equal(engine(small), before)
print("fine")
"""


@pytest.mark.slow
def test_interrupts_at_any_moment_leave_the_engine_right():
    ends_well(start(STORM))


@pytest.mark.slow
def test_processes_that_start_together_on_an_empty_cache_are_right(tmp_path):
    folder = tmp_path / "cache"
    processes = [start("print('fine')", SCUMBLE_CACHE=str(folder)) for _ in range(2)]
    for process in processes:
        ends_well(process)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    assert not [path for path in files if path.name.startswith(".")]
    # Files that took each other's names, each whole in itself, do no harm either.
    codes = [path for path in files if path.suffix == ".o"]
    contents = [path.read_bytes() for path in codes]
    for path, content in zip(codes, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    ends_well(start("print('fine')", SCUMBLE_CACHE=str(folder)))


def damage(path: Path, kind: int) -> None:
    content = path.read_bytes()
    match kind % 6:
        case 0:
            path.write_bytes(content[: len(content) // 2])
        case 1:
            path.write_bytes(b"")
        case 2:
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case 3:
            middle = len(content) // 2
            path.write_bytes(
                content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :]
            )
        case 4:
            path.write_bytes(random.Random(kind).randbytes(len(content)))
        case _:
            path.unlink()
            path.mkdir()  # which nobody replaces: from here on this file is never found


@pytest.fixture(name="cache")
def fresh_cache(tmp_path, monkeypatch):
    """A cache folder of this test's own, and no machine code in memory."""
    monkeypatch.setenv("SCUMBLE_CACHE", str(tmp_path / "cache"))
    loaded.kernels.cache_clear()
    yield tmp_path / "cache"
    loaded.kernels.cache_clear()


def test_a_damaged_cache_does_no_harm(network, cache):
    given = picture(0, 20, 30)
    for shift in range(4):  # every file meets every kind of damage
        loaded.kernels.cache_clear()
        assert error(scumble.compile(network, "cpu", 2), network, given) < 1e-5
        files = sorted(path for path in cache.rglob("*") if path.is_file())
        assert shift == 0 or files
        for index, path in enumerate(files):
            damage(path, index + shift)


@pytest.mark.parametrize("place", ["a file", "a file above", "read-only"])
def test_a_cache_that_cannot_be_written_does_no_harm(place, network, cache, monkeypatch):
    match place:
        case "a file":
            cache.write_text("")
        case "a file above":
            cache.write_text("")
            monkeypatch.setenv("SCUMBLE_CACHE", str(cache / "folder"))
        case _:
            monkeypatch.setenv("SCUMBLE_CACHE", "/proc/scumble")
    engine = scumble.compile(network, "cpu", 2)
    assert error(engine, network, picture(0, 20, 30)) < 1e-5


FLAT = """
from scumble.engines.cpu.native import MOST_BYTES, MOST_PLANS
from scumble.engines.cpu.plan import Plan
def taken():
    gc.collect()
    planned = sum(plan.memory for plan in piece.plans.values())
    resident = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    return resident - planned
(piece,) = engine.pieces
for index in range(50):
    engine(picture(0, 40 + index, 120 - index))
    if index == 24:
        half = taken()
assert len(piece.plans) <= MOST_PLANS
assert sum(plan.memory for plan in piece.plans.values()) <= MOST_BYTES
assert sum(type(one) is Plan for one in gc.get_objects()) <= MOST_PLANS
assert taken() - half < 80 << 20, (half, taken())  # 25 plans that stay take twice as much
print("fine")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody counts memory here")
@pytest.mark.slow
def test_memory_stays_flat_over_many_sizes():
    ends_well(start(FLAT))


WANT = """
def taken():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
large = picture(0, 400, 600)
wanted = engine(large)
sentences = set()
for megabytes in (0, 1, 8, 40, 100, 250):
    fresh = scumble.compile(network, "cpu", threads=2)
    fresh(small)
    resource.setrlimit(resource.RLIMIT_AS, (taken() + (megabytes << 20), -1))
    try:
        made = fresh(large)
    except EngineError as refused:
        made = None
        sentences.add(str(refused))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    print(megabytes, made is not None, flush=True)
    assert made is None or torch.equal(made, wanted)
    assert torch.equal(fresh(small), before)
    assert torch.equal(fresh(large), wanted)
    del fresh, made
    gc.collect()
for sentence in sentences:
    print(sentence)
    assert sentence.startswith("this picture needs ") and "\\n" not in sentence
    assert sentence.endswith("restore it in tiles")
assert sentences
print("fine")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited so on Linux")
def test_want_of_memory_is_an_error_and_the_engine_goes_on():
    ends_well(start(WANT))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (torch.rand(3, 8, 9), "Edsr takes pictures [B, 3, H, W], got [3, 8, 9]"),
        (torch.rand(1, 4, 8, 9), "Edsr takes pictures [B, 3, H, W], got [1, 4, 8, 9]"),
        (torch.rand(1, 1, 3, 8, 9), "Edsr takes pictures [B, 3, H, W], got [1, 1, 3, 8, 9]"),
        (torch.rand(0, 3, 8, 9), "Edsr takes pictures [B, 3, H, W], got [0, 3, 8, 9]"),
        (torch.rand(1, 3, 0, 9), "Edsr takes pictures [B, 3, H, W], got [1, 3, 0, 9]"),
        (torch.tensor(1.0), "Edsr takes pictures [B, 3, H, W], got []"),
        *(
            (
                torch.ones(1, 3, 8, 9, dtype=dtype),
                f"engine cpu takes pictures in float32 on the cpu, got {name} on cpu; engine "
                f"reference takes what the network takes",
            )
            for dtype, name in (
                (torch.float64, "float64"),
                (torch.float16, "float16"),
                (torch.uint8, "uint8"),
                (torch.complex64, "complex64"),
            )
        ),
        (
            torch.rand(1, 3, 8, 9, device="meta"),
            "engine cpu takes pictures in float32 on the cpu, got float32 on meta; engine "
            "reference takes what the network takes",
        ),
        (
            torch.rand(1, 3, 8, 9).to_sparse(),
            "engine cpu takes pictures in memory as they are, got a sparse tensor",
        ),
        ([1.0], "engine cpu takes a tensor, got a list"),
    ],
)
def test_what_is_no_picture_is_refused(given, sentence, engine):
    with pytest.raises(EngineError) as refused:
        engine(given)
    assert str(refused.value) == sentence


def test_a_picture_that_wants_gradients_gives_one_that_does_not(network, engine):
    given = picture(0, 9, 9)
    made = engine(given.clone().requires_grad_())
    assert not made.requires_grad
    assert torch.equal(made, engine(given))


def test_engines_that_are_dropped_end_their_threads(network):
    before = threading.active_count()
    for _ in range(5):
        scumble.compile(network, "cpu", threads=2)(picture(0, 9, 9))
    gc.collect()
    for _ in range(200):
        if threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert threading.active_count() <= before
