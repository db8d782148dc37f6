"""The process of one contestant: it opens a network, and runs it when asked to.

It reads one line of JSON for every request and answers with one; at the end of its input it ends.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from scumble.bench.peers import Files, Seat, take_seat
from scumble.errors import ScumbleError

Answer = dict[str, Any]


def main() -> None:
    """Serve the requests of the process that started this one."""
    answers = _private_output()
    given = json.loads(sys.argv[1])
    files = Files(**{name: Path(path) for name, path in given["files"].items()})
    try:
        seat = take_seat(given["engine"], files, given["threads"])
        told = _start(seat)
    except ScumbleError as error:
        _say(answers, {"refused": str(error)})
        return
    _say(answers, told)
    for line in sys.stdin:
        _say(answers, _answer(seat, json.loads(line)))


def _private_output() -> TextIO:
    """Return where answers go; whatever a library prints goes to the errors instead."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _say(answers: TextIO, answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _start(seat: Seat) -> Answer:
    before = _memory("VmRSS")
    start = time.perf_counter()
    seat.compile()
    seat.run()  # some engines compile when they see the first picture
    return {"ready_seconds": time.perf_counter() - start, "base_mib": before}


def _answer(seat: Seat, request: Answer) -> Answer:
    if "picture" in request:
        np.save(request["picture"], seat.output())
        return {}
    if "memory" in request:
        return {"peak_mib": _memory(request["memory"])}
    return {"seconds": _seconds(seat.run, request["iterations"])}


def _seconds(run: Callable[[], None], iterations: int) -> float:
    start = time.perf_counter()
    for _ in range(iterations):
        run()
    return time.perf_counter() - start


def _memory(what: str) -> float | None:
    """Return this process's resident memory in MiB, now or at most; None where nobody counts."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [line.split()[1] for line in lines if line.startswith(f"{what}:")]
    return round(int(found[0]) / 1024, 1) if found else None


if __name__ == "__main__":
    main()
