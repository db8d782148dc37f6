"""A contestant seen from outside: the process that it runs in, and what is said to it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from scumble.bench.peers import MALLOC, PEERS, Files
from scumble.errors import EngineError


def environment(engine: str, threads: int) -> dict[str, str]:
    """Return the variables that an engine runs under at its best."""
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    # Ours take their memory themselves, in large pages, and would have to share those.
    tuned = {"GLIBC_TUNABLES": MALLOC} if engine in PEERS else {}
    return tuned | dict.fromkeys(counts, str(threads))


@contextmanager
def started(title: str, engine: str, threads: int, files: Files) -> Iterator["Child"]:
    """Yield an engine that is ready to run a network; its process ends with the block."""
    given = {
        "engine": engine,
        "threads": threads,
        "files": {name: str(path) for name, path in vars(files).items()},
    }
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "scumble.bench.child", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | environment(engine, threads),
            text=True,
            start_new_session=True,  # so that Ctrl-C reaches us alone
        ) as process,
    ):
        try:
            yield Child(title, process, errors)
        finally:
            process.kill()


class Child:
    """One engine with one network in a process of its own, ready to run."""

    def __init__(self, title: str, process: subprocess.Popen[str], errors: IO[bytes]) -> None:
        self.title = title
        self._process = process
        self._errors = errors
        told = self._answer()
        self.ready_seconds: float = told["ready_seconds"]
        self.base_mib: float | None = told["base_mib"]

    def run(self, iterations: int) -> float:
        """Return the seconds that so many runs took."""
        return self._ask({"iterations": iterations})["seconds"]

    def picture(self) -> np.ndarray:
        """Return what the last run made."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture.npy"
            self._ask({"picture": str(path)})
            return np.load(path)

    def peak_mib(self) -> float | None:
        """Return the most memory that the process ever had, where somebody counts that."""
        return self._ask({"memory": "VmHWM"})["peak_mib"]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; there will be no answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EngineError(f"{self.title} stopped: {self._last_words()}")
        answer = json.loads(line)
        if "refused" in answer:
            raise EngineError(f"{self.title}: {answer['refused']}")
        return answer

    def _last_words(self) -> str:
        """Return the last line of its errors, or how it ended."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        if code < 0:
            return f"it was killed by signal {-code}; a large network may need more memory"
        return said[-1] if said else f"it ended with exit code {code}"
