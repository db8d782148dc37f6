"""Pictures on several machines, through Ray.

Files are read and written here, where the manifest is; their bytes travel. So the machines share
no folders, and whatever happens to one of them, what is done is known here. Each machine runs one
worker, on all of its cores.
"""

import io
import os
from collections import deque
from collections.abc import Generator, Iterable
from importlib import import_module
from typing import Any

from torch import nn

from scumble.errors import RestoreError, ScumbleError
from scumble.restore.form import Form
from scumble.restore.pipeline import Told
from scumble.restore.plan import Job
from scumble.restore.results import Ledger, Result, Turn, failed, sentence
from scumble.restore.runner import Runner
from scumble.restore.source import read_source
from scumble.restore.writing import write

AUTO, LOCAL = "auto", "local"

_AHEAD = 2  # pictures that each worker has at hand


class Worker:
    """What runs on a machine of the cluster."""

    def __init__(
        self, network: nn.Module, scale: int, engine: str, threads: int, tile: int | None
    ) -> None:
        self.runner = Runner(network, scale, engine, threads, tile)

    def restore(self, job: Job, content: bytes, form: Form) -> tuple[bytes | str, float]:
        """Return the file of a restored picture, or why there is none; and the engine's seconds."""
        before = self.runner.seconds
        try:
            source = read_source(job.source, content, form.max_megapixels)
            file = io.BytesIO()
            write(self.runner.restore(source.samples), file, job.target, source, form)
        except (ScumbleError, MemoryError, RuntimeError, ValueError, OSError) as error:
            return sentence(job, error), self.runner.seconds - before
        return file.getvalue(), self.runner.seconds - before


class Cluster:
    """Restores pictures on the machines of a cluster."""

    def __init__(
        self, runner: Runner, ledger: Ledger, address: str = AUTO, threads: int | None = None
    ) -> None:
        self.runner, self.ledger = runner, ledger
        self.ray, self._address, self._threads = _ray(), address, threads

    def run(self, jobs: Iterable[Job], told: Told) -> Generator[Result]:
        """Yield what became of every picture, in order."""
        own = _connect(self.ray, self._address)
        try:
            yield from _Round(self, self._hire(), told).run(jobs)
        finally:
            if own:
                self.ray.shutdown()

    def _hire(self) -> list[Any]:
        """Return a worker on every machine."""
        ray, runner = self.ray, self.runner
        network = ray.put(runner.network)
        near = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        found = []
        for node in ray.nodes():
            cores = int(node["Resources"].get("CPU", 0))
            if node["Alive"] and cores:
                threads = min(self._threads or cores, cores)
                place = near(node["NodeID"], soft=False)
                hire = ray.remote(Worker).options(num_cpus=cores, scheduling_strategy=place)
                engine = runner.compiled.engine
                found.append(hire.remote(network, runner.scale, engine, threads, runner.tile))
        if not found:
            raise RestoreError("a cluster needs a machine with cores to spare, got none")
        return found


class _Round:
    """One batch on some workers."""

    def __init__(self, cluster: Cluster, workers: list[Any], told: Told) -> None:
        self.ray, self.ledger, self.runner = cluster.ray, cluster.ledger, cluster.runner
        self.workers, self.told = workers, told
        self.running: dict[Any, tuple[Turn, Any]] = {}  # by the promise of the result

    def run(self, jobs: Iterable[Job]) -> Generator[Result]:
        """Yield what became of every picture, in order."""
        waiting, finished = deque[Job](), dict[Job, Result]()
        for job in jobs:
            waiting.append(job)
            turn = self.ledger.look_up(job)
            if isinstance(turn, Result):
                finished[job] = turn
            elif job.frames is not None:
                told = f"{job.source} is a video, which one machine restores; leave --ray out"
                finished[job] = failed(job, told)
            else:
                self._start(turn)
            while len(self.running) >= _AHEAD * len(self.workers):
                self._finish_one(finished)
            while waiting and waiting[0] in finished:
                yield finished.pop(waiting.popleft())
        while waiting:
            while waiting[0] not in finished:
                self._finish_one(finished)
            yield finished.pop(waiting.popleft())

    def _start(self, turn: Turn) -> None:
        """Give a picture to the worker that has the fewest."""
        busy = [worker for _, worker in self.running.values()]
        worker = min(self.workers, key=lambda one: sum(one is other for other in busy))
        promise = worker.restore.remote(turn.job, turn.content, self.ledger.form)
        self.running[promise] = (turn, worker)

    def _finish_one(self, finished: dict[Job, Result]) -> None:
        """Wait for a picture, and write it; one whose machine was lost starts again elsewhere."""
        (promise, *_), _ = self.ray.wait(list(self.running), num_returns=1)
        turn, worker = self.running.pop(promise)
        try:
            made, seconds = self.ray.get(promise)
        except self.ray.exceptions.RayActorError as error:
            self.workers = [other for other in self.workers if other is not worker]
            if not self.workers:
                raise RestoreError(
                    "all machines of the cluster were lost; go on with --resume"
                ) from error
            self._start(turn)
            return
        self.runner.seconds += seconds
        job = turn.job
        if isinstance(made, str):
            finished[job] = failed(job, made)
        else:
            finished[job] = self.ledger.save(turn, lambda file: _put(file, made))
            self.told(job, job.pixels)


def _put(file: Any, content: bytes) -> None:
    file.write(content)


def _ray() -> Any:
    """Return Ray, which is an extra."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise RestoreError(
            "restoring on several machines needs Ray; install it on each: "
            "pip install 'scumble[cluster]'"
        ) from error


def _connect(ray: Any, address: str) -> bool:
    """Connect to a cluster, unless that is done; return whether it was."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address == LOCAL:
            ray.init(include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise RestoreError(
            f"no Ray cluster can be reached at {address}: {reason} (start one with ray start "
            f"--head, or say --ray local)"
        ) from error
    return True
