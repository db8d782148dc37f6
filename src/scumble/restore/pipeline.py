"""Pictures are read, restored and written at the same time, each in its turn.

Threads read and decode the next pictures and write the last ones while the engine is at work on
one; nearly all of that happens in libraries that let go of Python's lock.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from scumble.errors import ScumbleError
from scumble.restore.memory import free_bytes
from scumble.restore.plan import Job
from scumble.restore.results import DONE, Ledger, Result, Turn, failed, sentence
from scumble.restore.runner import Runner
from scumble.restore.source import Source, read_source
from scumble.restore.video import forget, join, make_segments
from scumble.restore.writing import write

_WORKERS = 2  # threads that read, and as many that write
_AHEAD = 4  # pictures read before their turn, and as many that wait to be written
_SHARE = 4  # of the free memory, what pictures that wait may take

Told = Callable[[Job, int], None]  # a picture, and how many of its pixels are done


@dataclass(frozen=True)
class Decoded:
    """A picture that waits for the engine."""

    turn: Turn
    source: Source


class Pipeline:
    """Restores pictures on this machine."""

    def __init__(self, runner: Runner, ledger: Ledger) -> None:
        self.runner, self.ledger = runner, ledger
        self._most_waiting = free_bytes() // _SHARE

    def run(self, jobs: Iterable[Job], told: Told) -> Generator[Result]:
        """Yield what became of every picture, in order."""
        readers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="scumble-read")
        writers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="scumble-write")
        written: deque[tuple[Future[Result], int]] = deque()
        try:
            for read in self._ahead(readers, jobs):
                written.append(self._take(read, writers, told))
                while written and (written[0][0].done() or self._is_much(written)):
                    yield written.popleft()[0].result()
            while written:
                yield written.popleft()[0].result()
        finally:
            for pool in (readers, writers):
                pool.shutdown(wait=True, cancel_futures=True)

    def _ahead(
        self, readers: ThreadPoolExecutor, jobs: Iterable[Job]
    ) -> Generator[Decoded | Turn | Result]:
        """Yield pictures that were read, in order, a few of them ahead of their turn."""
        waiting: deque[tuple[Future[Decoded | Turn | Result], int]] = deque()
        for job in jobs:
            held = 0 if job.frames is not None else 3 * job.pixels
            while waiting and self._is_much([*waiting, (None, held)]):
                yield waiting.popleft()[0].result()
            waiting.append((readers.submit(self._read, job), held))
        while waiting:
            yield waiting.popleft()[0].result()

    def _is_much(self, waiting: Iterable[tuple[object, int]]) -> bool:
        """Return whether what waits is enough, by number or by memory."""
        sizes = [size for _, size in waiting]
        return len(sizes) > _AHEAD or sum(sizes) > self._most_waiting

    def _read(self, job: Job) -> Decoded | Turn | Result:
        """Read a picture, and decode it unless it is a video."""
        turn = self.ledger.look_up(job)
        if isinstance(turn, Result) or job.frames is not None:
            return turn
        try:
            most = self.ledger.form.max_megapixels
            return Decoded(turn, read_source(job.source, turn.content, most))
        except (ScumbleError, MemoryError) as error:
            return failed(job, sentence(job, error))

    def _take(
        self, read: Decoded | Turn | Result, writers: ThreadPoolExecutor, told: Told
    ) -> tuple[Future[Result], int]:
        """Restore a picture; return its future result, and the memory that waits for it."""
        if isinstance(read, Result):
            return _known(read), 0
        if isinstance(read, Turn):
            return _known(self._restore_video(read, told)), 0
        turn, source, form = read.turn, read.source, self.ledger.form
        job = turn.job
        try:
            canvas = self.runner.restore(source.samples, lambda done: told(job, done))
        except (ScumbleError, MemoryError, RuntimeError) as error:
            return _known(failed(job, sentence(job, error))), 0
        future = writers.submit(
            self.ledger.save, turn, lambda file: write(canvas, file, job.target, source, form)
        )
        return future, canvas.bytes

    def _restore_video(self, turn: Turn, told: Told) -> Result:
        """Restore a video, segment by segment."""
        job, quality = turn.job, self.ledger.form.quality
        folder = self.ledger.store.segments(turn.input_hash, self.ledger.settings)
        frame = job.height * job.width

        def count(frames: int) -> None:
            told(job, min(frames * frame, job.pixels))

        try:
            make_segments(job.source, folder, self.runner, quality, count)
        except (ScumbleError, MemoryError, RuntimeError, OSError) as error:
            return failed(job, sentence(job, error))
        result = self.ledger.save(turn, lambda file: join(job.source, folder, file, job.target))
        if result.status == DONE:
            forget(folder)
        return result


def _known(result: Result) -> Future[Result]:
    future: Future[Result] = Future()
    future.set_result(result)
    return future
