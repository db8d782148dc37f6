import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import scumble
from scumble.errors import RestoreError
from scumble.restore import RESUME, Restorer
from scumble.restore import cluster as cluster_room
from scumble.restore.cluster import Worker
from tests.restore.photos import image, nearest
from tests.restore.test_batch import content, photos

pytestmark = pytest.mark.slow


COUNT = 40


def restorer() -> Restorer:
    network = scumble.build("edsr-x2", features=4, blocks=1)
    for number, parameter in enumerate(network.parameters()):
        parameter.data.fill_(0.01 * number)
    return Restorer(network, engine="reference", threads=1)


@pytest.fixture
def machines():
    """Two machines of one core each, as Ray itself tests with."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'scumble[cluster]'")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    other = cluster.add_node(**small)
    yield cluster, other
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.filterwarnings("ignore")  # those of Ray are its own
def test_two_machines_make_the_files_that_one_makes_even_if_one_is_lost(tmp_path, machines):
    cluster, other = machines
    photos(tmp_path / "in", COUNT)
    (tmp_path / "in" / "bad.jpg").write_bytes(b"no picture")
    image(20, 30).save(tmp_path / "in" / "a.gif")
    here = list(restorer().folder(tmp_path / "in", tmp_path / "here"))
    batch = restorer().folder(tmp_path / "in", tmp_path / "there", cluster=cluster.address)
    there = [next(batch) for _ in range(3)]
    cluster.remove_node(other, allow_graceful=False)
    there += list(batch)
    assert [result.status for result in there] == [result.status for result in here]
    assert [result.error for result in there] == [result.error for result in here]
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert batch.summary()["engine_busy"] > 0
    again = restorer().folder(tmp_path / "in", tmp_path / "there", existing=RESUME)
    assert [result.status for result in again].count("skipped") == COUNT


class LostError(Exception):
    """What Ray raises for a worker whose machine is gone."""


class FakeRay:
    """Workers in this process, some of which are lost after so many pictures."""

    exceptions = SimpleNamespace(RayActorError=LostError)

    def __init__(self, *lives: int) -> None:
        self.lives, self.lost = list(lives), 0

    def wait(self, promises, num_returns):
        return promises[:num_returns], promises[num_returns:]

    def get(self, promise):
        return promise()

    def hire(self, runner):
        return [self._worker(runner, life) for life in self.lives]

    def _worker(self, runner, life: int):
        worker = object.__new__(Worker)
        worker.runner, left = runner, [life]

        def remote(*task):
            def promise():
                left[0] -= 1
                if left[0] < 0:
                    self.lost += 1
                    raise LostError
                return worker.restore(*task)

            return promise

        return SimpleNamespace(restore=SimpleNamespace(remote=remote))


def with_workers(monkeypatch, ray: FakeRay) -> None:
    monkeypatch.setattr(cluster_room, "_ray", lambda: ray)
    monkeypatch.setattr(cluster_room, "_connect", lambda *_: False)
    monkeypatch.setattr(cluster_room.Cluster, "_hire", lambda cluster: ray.hire(cluster.runner))


def test_a_picture_whose_machine_was_lost_is_done_by_another(tmp_path, monkeypatch):
    photos(tmp_path / "in", 9)
    ray = FakeRay(2, 100)
    with_workers(monkeypatch, ray)
    batch = nearest().folder(tmp_path / "in", tmp_path / "out", cluster="auto")
    assert [result.status for result in batch] == ["done"] * 9
    assert ray.lost > 0


def test_without_any_machine_left_the_batch_ends_and_can_go_on(tmp_path, monkeypatch):
    photos(tmp_path / "in", 9)
    with_workers(monkeypatch, FakeRay(2, 1))
    batch = nearest().folder(tmp_path / "in", tmp_path / "out", cluster="auto")
    with pytest.raises(RestoreError, match="all machines of the cluster were lost; go on with"):
        list(batch)
    again = list(nearest().folder(tmp_path / "in", tmp_path / "out", existing=RESUME))
    assert [result.status for result in again].count("skipped") == 3


def test_without_ray_the_fix_is_told(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(cluster_room, "import_module", missing)
    photos(tmp_path / "in", 1)
    with pytest.raises(RestoreError, match=r"pip install 'scumble\[cluster\]'"):
        nearest().folder(tmp_path / "in", tmp_path / "out", cluster="auto")
    assert not Path(tmp_path / "out").exists()


def test_a_cluster_that_is_not_there_is_named(tmp_path, monkeypatch):
    def refuse(**_):
        raise ConnectionError("Could not find any running Ray instance.\nMore.")

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr(cluster_room, "import_module", lambda name: ray)
    photos(tmp_path / "in", 1)
    batch = nearest().folder(tmp_path / "in", tmp_path / "out", cluster="auto")
    with pytest.raises(
        RestoreError,
        match="no Ray cluster can be reached at auto: Could not find any running Ray instance",
    ):
        next(batch)
