import json
from dataclasses import replace
from importlib.util import find_spec

import pytest

import scumble
import scumble.bench.peers as peers
from scumble.bench import bench, case_of, check_engines
from scumble.bench.peers import PEERS
from scumble.bench.race import beside_fastest_peer
from scumble.bench.report import Report, Row
from scumble.bench.watch import Watch
from scumble.errors import EngineError, UnknownNameError
from scumble.machine import command, cores, machine, versions


def row(engine: str, times: list[float], threads: int = 1, pattern: str = "dense") -> Row:
    return Row(
        network="net",
        pattern=pattern,
        engine=engine,
        threads=threads,
        macs=25_000_000,
        dense_macs=100_000_000,
        iterations=1,
        times=times,
        difference=0.0,
        ready_seconds=1.0,
        base_mib=10.0,
        peak_mib=20.0,
        peak_flops=100e9,
    )


@pytest.fixture(scope="module")
def report():
    network = scumble.build("edsr-x2", features=8, blocks=1)
    told: list[tuple[str, int, int]] = []
    cases = [case_of("small", network)]
    found = bench(cases, ["reference", "torch"], [1], (16, 16), 2, lambda *what: told.append(what))
    assert told[-1] == ("taking turns", 4, 4)
    return found


def test_a_real_run_times_every_contestant_and_sees_the_same_picture(report):
    reference, torch = report.rows
    assert (reference.engine, torch.engine) == ("reference", "torch")
    cost = scumble.inspect(scumble.build("edsr-x2", features=8, blocks=1), (16, 16)).cost
    for one in report.rows:
        assert len(one.times) == 2
        assert min(one.times) > 0
        assert one.macs == one.dense_macs == cost.conv_macs
        assert one.peak_flops > 1e9
        assert one.peer == "torch"
    assert reference.difference == 0
    assert torch.difference < 1e-5
    assert torch.ratio.median == 1


def test_a_report_says_machine_versions_and_command(report):
    told = json.loads(json.dumps(report.to_json()))
    assert told["machine"]["cores"] >= 1
    assert told["versions"]["scumble"] == scumble.__version__
    assert (told["width"], told["height"], told["rounds"]) == (16, 16, 2)
    assert told["environment"]["reference, 1"]["OMP_NUM_THREADS"] == "1"
    assert [one["engine"] for one in told["rows"]] == ["reference", "torch"]
    assert len(told["rows"][0]["ms_by_round"]) == 2


def test_rows_are_held_against_the_fastest_peer_on_as_many_threads():
    rows = [
        row("reference", [1.0, 2.0]),
        row("torch", [4.0, 8.0]),
        row("openvino", [3.0, 6.0]),
        row("openvino", [0.1, 0.1], threads=2),
        row("torch", [0.1, 0.1], pattern="2:32"),
    ]
    found = beside_fastest_peer(rows[0], rows)
    assert (found.peer, found.ratio.median) == ("openvino", 3.0)
    assert beside_fastest_peer(rows[1], rows).ratio.median == 0.75
    assert beside_fastest_peer(rows[0], rows[:1]).ratio is None


def test_figures_count_two_operations_for_each_weight():
    found = row("reference", [0.01])
    assert found.effective_flops == pytest.approx(20e9)
    assert found.real_flops == pytest.approx(5e9)
    told = found.to_json()
    assert (told["effective_gflops"], told["real_gflops"]) == (20.0, 5.0)
    assert told["real_share_of_peak"] == 0.05
    assert told["ms"]["median"] == 10


def test_a_table_stands_for_each_case():
    found = Report((16, 16), 1, [row("torch", [1.0]), row("torch", [1.0], pattern="2:32")])
    titles = [table.title for table in found.tables()]
    assert titles == [f"net {p} on 16x16: 0.03 of 0.10 GMACs" for p in ("dense", "2:32")]


def test_other_work_on_the_machine_is_told():
    quiet, busy = (replace(row("torch", [1.0]), others_busy=share) for share in (0.02, 0.4))
    assert Report((16, 16), 1, [quiet]).warning() is None
    assert Report((16, 16), 1, [quiet, busy]).warning() == (
        "other work took 40% of this machine between turns: figures may be far off"
    )


def test_a_watch_sleeps_and_counts():
    watch = Watch()
    assert watch.busy is None
    watch.sleep(0.1)
    assert watch.busy is None or 0 <= watch.busy <= 1


def test_unknown_engines_and_threads_without_a_core_are_refused():
    with pytest.raises(UnknownNameError, match="no engine named 'tprch'. Did you mean 'torch'?"):
        check_engines(["tprch"], [1])
    for count in (0, cores() + 1):
        sentence = f"timing needs 1 to {cores()} threads on this machine, got {count}"
        with pytest.raises(EngineError, match=sentence):
            check_engines(["torch"], [count])


def test_a_missing_library_is_refused_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name == "openvino" else name)
    check_engines(["torch", "onnxruntime"], [1])
    sentence = (
        r"timing openvino needs openvino, which is not installed; pip install scumble\[bench\], "
        r"or leave openvino out \(--engines\)"
    )
    with pytest.raises(EngineError, match=sentence):
        check_engines(["openvino"], [1])


def test_engines_of_others_make_the_same_picture():
    wanted = [name for name, peer in PEERS.items() if peer.needs_onnx]
    missing = [one for name in wanted for one in PEERS[name].libraries if find_spec(one) is None]
    if missing:
        pytest.skip(f"needs {missing[0]}: pip install scumble[bench]")
    case = case_of("small", scumble.build("edsr-x2", features=32, blocks=1), "2:32")
    found = bench([case], wanted, [1], (16, 24), rounds=1).rows
    assert [row.engine for row in found] == wanted
    assert max(row.difference for row in found) < 1e-5


def test_the_machine_is_described_without_its_folders(monkeypatch):
    assert machine()["kind"]
    assert versions()["python"]
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/scumble", "bench", "-n", "carn-x4"])
    assert command() == "scumble bench -n carn-x4"
    monkeypatch.setattr("sys.argv", ["benchmarks/cpu_engine.py", "--rounds", "3"])
    assert command() == "python benchmarks/cpu_engine.py --rounds 3"
