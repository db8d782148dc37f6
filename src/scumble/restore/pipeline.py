"""Pictures are read, restored and written at the same time, each in its turn.

Threads read and decode the next pictures and write the last ones while the engine is at work on
one; nearly all of that happens in libraries that let go of Python's lock.
"""

import errno
import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scumble.errors import ImageError, RestoreError, ScumbleError
from scumble.restore.canvas import Canvas
from scumble.restore.form import Form
from scumble.restore.memory import free_bytes
from scumble.restore.plan import Job
from scumble.restore.runner import Runner
from scumble.restore.source import Source, read_source
from scumble.restore.store import Store
from scumble.restore.video import forget, join, make_segments
from scumble.restore.writing import write

DONE, SKIPPED, FAILED = "done", "skipped", "failed"

_WORKERS = 2  # threads that read, and as many that write
_AHEAD = 4  # pictures read before their turn, and as many that wait to be written
_SHARE = 4  # of the free memory, what pictures that wait may take

# When these happen, no other picture will fare better.
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@dataclass(frozen=True)
class Result:
    """What became of one picture."""

    source: Path
    target: Path
    status: str  # done, skipped or failed
    pixels: int = 0  # of the source
    error: str | None = None


@dataclass(frozen=True)
class Read:
    """A picture that waits for the engine, or what became of it before."""

    job: Job
    input_hash: str = ""
    source: Source | None = None
    result: Result | None = None


class Pipeline:
    """Restores the pictures of a plan, and knows how far it is."""

    def __init__(self, runner: Runner, store: Store, form: Form) -> None:
        self.runner, self.store, self.form = runner, store, form
        self.settings = form.digest(runner.fingerprint, str(runner.scale), runner.compiled.engine)
        self.seconds = 0.0  # from the first picture to the last
        self._most_waiting = free_bytes() // _SHARE

    def run(
        self, jobs: Iterable[Job], told: Callable[[Job, int], None] = lambda job, done: None
    ) -> Generator[Result, None, None]:
        """Yield what became of every picture, in order.

        Args:
            jobs: the pictures.
            told: called with a picture and how many pixels of it are done, while it is restored.
        """
        start = time.perf_counter()
        readers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="scumble-read")
        writers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="scumble-write")
        written: deque[tuple[Future[Result], int]] = deque()
        try:
            for read in self._ahead(readers, iter(jobs)):
                written.append(self._turn(read, writers, told))
                while written and (written[0][0].done() or self._is_much(written)):
                    yield written.popleft()[0].result()
                self.seconds = time.perf_counter() - start
            while written:
                yield written.popleft()[0].result()
        finally:
            for pool in (readers, writers):
                pool.shutdown(wait=True, cancel_futures=True)
            self.seconds = time.perf_counter() - start

    def _ahead(self, readers: ThreadPoolExecutor, jobs: Iterable[Job]) -> Generator[Read]:
        """Yield pictures that were read, in order, a few of them ahead of their turn."""
        waiting: deque[tuple[Future[Read], int]] = deque()
        for job in jobs:
            while waiting and self._is_much([*waiting, (None, 3 * job.pixels)]):
                yield waiting.popleft()[0].result()
            waiting.append((readers.submit(self._read, job), 3 * job.pixels))
        while waiting:
            yield waiting.popleft()[0].result()

    def _is_much(self, waiting: Iterable[tuple[object, int]]) -> bool:
        """Return whether what waits is enough, by number or by memory."""
        sizes = [size for _, size in waiting]
        return len(sizes) > _AHEAD or sum(sizes) > self._most_waiting

    def _read(self, job: Job) -> Read:
        """Read and decode a picture, unless it is done already."""
        if job.failure is not None:
            return Read(job, result=_failed(job, job.failure))
        try:
            if job.frames is not None:
                return self._read_video(job)
            content = _content(job.source)
            input_hash = hashlib.sha256(content).hexdigest()
            if self.store.is_done(job.target, input_hash, self.settings):
                done = Result(job.source, job.target, SKIPPED, job.pixels)
                return Read(job, input_hash, result=done)
            self.store.refuse_changed(job.target)
            source = read_source(job.source, content, self.form.max_megapixels)
            return Read(job, input_hash, source)
        except (ScumbleError, MemoryError, OSError) as error:
            return Read(job, result=_failed(job, _sentence(job, error)))

    def _turn(
        self, read: Read, writers: ThreadPoolExecutor, told: Callable[[Job, int], None]
    ) -> tuple[Future[Result], int]:
        """Restore a picture; return its future result, and the memory that waits for it."""
        job, source = read.job, read.source
        if read.result is None and job.frames is not None:
            return _known(self._restore_video(job, read.input_hash, told)), 0
        if source is None:
            assert read.result is not None
            return _known(read.result), 0
        try:
            canvas = self.runner.restore(source.samples, lambda done: told(job, done))
        except (ScumbleError, MemoryError, RuntimeError) as error:
            return _known(_failed(job, _sentence(job, error))), 0
        future = writers.submit(self._write, job, canvas, source, read.input_hash)
        return future, canvas.bytes

    def _read_video(self, job: Job) -> Read:
        with job.source.open("rb") as file:
            input_hash = hashlib.file_digest(file, "sha256").hexdigest()
        if self.store.is_done(job.target, input_hash, self.settings):
            return Read(job, result=Result(job.source, job.target, SKIPPED, job.pixels))
        self.store.refuse_changed(job.target)
        return Read(job, input_hash)

    def _restore_video(self, job: Job, input_hash: str, told: Callable[[Job, int], None]) -> Result:
        """Restore a video, segment by segment."""
        folder = self.store.segments(input_hash, self.settings)
        pixels = job.height * job.width
        try:
            make_segments(
                job.source,
                folder,
                self.runner,
                self.form.quality,
                lambda frames: told(job, min(frames * pixels, job.pixels)),
            )
        except (ScumbleError, MemoryError, RuntimeError, OSError) as error:
            return _failed(job, _sentence(job, error))
        written = self._save(
            job, lambda file: join(job.source, folder, file, job.target), input_hash
        )
        if written.status == DONE:
            forget(folder)
        return written

    def _write(self, job: Job, canvas: Canvas, source: Source, input_hash: str) -> Result:
        return self._save(
            job, lambda file: write(canvas, file, job.target, source, self.form), input_hash
        )

    def _save(self, job: Job, put: Callable[[IO[bytes]], None], input_hash: str) -> Result:
        """Write a result, and say what became of it."""
        try:
            about = (input_hash, self.settings)
            self.store.save(job.target, put, job.source, about, self.form.keep_times)
        except OSError as error:
            if error.errno in _HOPELESS:
                raise RestoreError(
                    f"{job.target} cannot be written: {error.strerror}; mend that and go on with "
                    f"--resume"
                ) from error
            return _failed(job, f"{job.target} cannot be written: {error.strerror or error}")
        except (ScumbleError, MemoryError, ValueError) as error:
            return _failed(job, _sentence(job, error))
        return Result(job.source, job.target, DONE, job.pixels)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror or error}") from error


def _known(result: Result) -> Future[Result]:
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def _failed(job: Job, error: str) -> Result:
    return Result(job.source, job.target, FAILED, job.pixels, error)


def _sentence(job: Job, error: BaseException) -> str:
    """Return an error in one line that names the picture."""
    told = str(error).partition("\n")[0] or type(error).__name__
    if isinstance(error, MemoryError):
        told = "there is too little memory"
    named = str(job.source) in told or str(job.target) in told
    return told if named else f"{job.source}: {told}"
