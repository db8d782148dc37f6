"""Threads that run lists of calls; they sleep while there is nothing to do."""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from scumble.errors import EngineError

_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Job = tuple[int, int]


class _Task:
    """One run; only the leader starts and ends it, so that no signal comes in between."""

    def __init__(self, prepare: Callable[[], Sequence[_Job]], stop: ctypes.c_int64) -> None:
        self.prepare = prepare
        self.stop = stop
        self.cancelled = self.over = False
        self.error: Exception | None = None
        self._finished = threading.Lock()
        self._finished.acquire()

    def finish(self) -> None:
        """Let the one who waits go on."""
        self.over = True
        self._finished.release()

    def wait(self) -> None:
        """Wait for the end, where Ctrl-C is heard."""
        while not self.over:
            self._finished.acquire(timeout=1.0)

    def cancel(self) -> None:
        """Have the threads leave their lists before the next call."""
        self.cancelled = True
        self.stop.value = 1


class Workers:
    """A few threads of our own.

    The code they run holds no lock of Python's. The first of them leads: Python runs handlers of
    signals in the main thread only, so that Ctrl-C never cuts the leader's work in two.
    """

    def __init__(self, count: int, entry: int) -> None:
        self._entry = _Entry(entry)
        self._process = os.getpid()
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._jobs = [SimpleQueue[_Job | None]() for _ in range(count - 1)]
        self._done: SimpleQueue[None] = SimpleQueue()
        targets = [(self._lead, ()), *((self._follow, (queue,)) for queue in self._jobs)]
        for index, (target, args) in enumerate(targets):
            threading.Thread(target=target, args=args, daemon=True, name=f"scumble-{index}").start()

    def check_process(self) -> None:
        """Refuse to run in a process that was forked off: threads stay behind."""
        if os.getpid() != self._process:
            raise EngineError(
                "the threads of an engine do not survive a fork; compile the network in the new "
                'process, or start processes with multiprocessing\'s "spawn"'
            )

    def run(self, prepare: Callable[[], Sequence[_Job]], stop: ctypes.c_int64) -> None:
        """Run one list of calls per thread: addresses of programs and of scratch memory."""
        self.check_process()
        task = _Task(prepare, stop)
        try:
            self._tasks.put(task)
            task.wait()
        except BaseException:
            task.cancel()
            self._tasks.put(task)  # in case it was not handed over; it is run only once
            self._settle(task)
            raise
        if task.error is not None:
            raise task.error

    @staticmethod
    def _settle(task: _Task) -> None:
        while True:
            try:
                task.wait()
                return
            except BaseException:  # another Ctrl-C; the first is on its way already
                continue

    def close(self) -> None:
        """End the threads."""
        self._tasks.put(None)
        for queue in self._jobs:
            queue.put(None)

    def _lead(self) -> None:
        while (task := self._tasks.get()) is not None:
            if task.over:
                continue
            try:
                self._run(task)
            except Exception as error:  # of prepare; told to the one who waits
                task.error = error
            task.finish()
            del task

    def _run(self, task: _Task) -> None:
        jobs = task.prepare()
        task.stop.value = 0
        if task.cancelled:
            task.stop.value = 1
        for queue, job in zip(self._jobs, jobs[1:], strict=True):
            queue.put(job)
        self._entry(*jobs[0])
        for _ in jobs[1:]:
            self._done.get()

    def _follow(self, queue: "SimpleQueue[_Job | None]") -> None:
        while (job := queue.get()) is not None:
            self._entry(*job)
            self._done.put(None)
