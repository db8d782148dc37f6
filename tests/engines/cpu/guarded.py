"""Runs random graphs in memory that ends, or begins, where nobody may read or write.

Run as a script: the operating system ends it at the first step out of bounds.
"""

import ctypes
import mmap
import sys

import numpy as np

from scumble.engines.cpu import layer_code, placement, plan, tuning

PAGE = mmap.PAGESIZE
_library = ctypes.CDLL(None, use_errno=True)
_PROTECT_ALL = 0


class GuardedArena:
    """Memory between two pages that nobody may touch, full of NaN."""

    at_end = True

    def __init__(self, size: int, line: int = 64) -> None:
        self.size = -(-max(size, 1) // line) * line
        pages = -(-self.size // PAGE) + 2
        self._map = mmap.mmap(-1, pages * PAGE)
        raw = np.frombuffer(self._map, np.uint8)
        start = len(raw) - PAGE - self.size if self.at_end else PAGE
        self.bytes = raw[start : start + self.size]
        self.bytes[: self.size // 4 * 4].view(np.float32)[:] = np.nan
        for page in (0, pages - 1):
            if _library.mprotect(
                ctypes.c_void_p(raw.ctypes.data + page * PAGE), PAGE, _PROTECT_ALL
            ):
                raise OSError(ctypes.get_errno(), "mprotect")

    @property
    def address(self) -> int:
        """Return where it starts."""
        return self.bytes.ctypes.data


def guard() -> None:
    """Let plans take all their memory, tables too, between guard pages."""
    placement.Arena = plan.Arena = tuning.Arena = GuardedArena

    def table(self, values):
        raw = np.ascontiguousarray(
            np.asarray(values, np.int64 if isinstance(values, list) else None)
        )
        arena = GuardedArena(raw.nbytes, 1 if raw.dtype.itemsize == 1 else raw.dtype.itemsize)
        if len(arena.bytes) % self.line or not GuardedArena.at_end:
            arena = GuardedArena(raw.nbytes)  # lines need to be aligned
        arena.bytes[: raw.nbytes] = raw.reshape(-1).view(np.uint8)
        self.kept.append(arena)
        return arena.address

    layer_code.LayerCode.table = table


def main(examples: int, at_end: bool, trespass: bool) -> None:
    """Run many graphs; with ``trespass`` make every value's rows one too few, to see it caught."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    from scumble.engines.cpu.storage import Stored
    from scumble.engines.cpu.target import available
    from tests.engines.cpu.random_graphs import cases, native, outputs, worst

    GuardedArena.at_end = at_end
    guard()
    if trespass:
        whole = Stored.size
        Stored.size = staticmethod(lambda shape: whole(shape) - shape.row_bytes)

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        cases(),
        st.integers(1, 2),
        st.sampled_from(available()),
        st.sampled_from([1 << 14, 1 << 22]),
    )
    def stays_inside(case, threads, on, cache):
        assert worst(case, outputs(case, native(case, threads, cache, on))) < 1e-5

    stays_inside()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "end", "trespass" in sys.argv)
