"""Work done a little ahead, in threads, with the results in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from scumble.machine import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Generator[Future[Result], None, None]:
    """Yield the outcome of every item, in order; at most twice as many as workers wait."""
    workers = workers or cores()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="scumble-data")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
