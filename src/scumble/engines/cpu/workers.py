"""Threads that run lists of calls; they sleep while there is nothing to do."""

import ctypes
import os
import threading
from collections.abc import Sequence

from scumble.errors import EngineError

_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Workers:
    """A few threads of our own.

    The code they run holds no lock of Python's. Whoever starts them waits where Ctrl-C is heard.
    """

    def __init__(self, count: int, entry: int) -> None:
        self._entry = _Entry(entry)
        self._process = os.getpid()
        self._lock = threading.Lock()  # one program at a time
        self._jobs: list[tuple[int, int] | None] = [None] * count
        self._wake = [threading.Semaphore(0) for _ in range(count)]
        self._finished = threading.Semaphore(0)
        self._threads = [
            threading.Thread(
                target=self._serve, args=(index,), daemon=True, name=f"scumble-{index}"
            )
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, jobs: Sequence[tuple[int, int]], stop: ctypes.c_int64) -> None:
        """Run one list of calls per thread, given addresses of programs and of scratch memory."""
        if os.getpid() != self._process:
            raise EngineError(
                "the threads of an engine do not survive a fork; compile the network in the new "
                'process, or start processes with multiprocessing\'s "spawn"'
            )
        with self._lock:
            stop.value = 0
            for index, job in enumerate(jobs):
                self._jobs[index] = job
                self._wake[index].release()
            self._wait(len(jobs), stop)

    def _wait(self, count: int, stop: ctypes.c_int64) -> None:
        left = count
        try:
            while left:
                self._finished.acquire()
                left -= 1
        except BaseException:
            stop.value = 1  # the threads leave their lists before the next call
            for _ in range(left):
                self._finished.acquire()
            raise

    def close(self) -> None:
        """End the threads."""
        for index in range(len(self._threads)):
            self._jobs[index] = None
            self._wake[index].release()

    def _serve(self, index: int) -> None:
        while True:
            self._wake[index].acquire()
            job = self._jobs[index]
            if job is None:
                return
            self._entry(*job)
            self._finished.release()
