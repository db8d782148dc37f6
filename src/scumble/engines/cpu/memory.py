"""Memory for values: aligned, in huge pages where the system has them."""

import mmap
import os
import sys

import numpy as np
from numpy.typing import NDArray

from scumble.errors import EngineError

HUGE_PAGE = 2 << 20

# Shared memory, which Python takes else, comes in small pages.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}


class Arena:
    """A piece of memory that starts at a huge page; it is freed when nobody refers to it."""

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        try:
            self._map = mmap.mmap(-1, self.size + HUGE_PAGE, **_PRIVATE)
        except (OSError, OverflowError, ValueError) as error:
            raise EngineError(
                f"this picture needs {size / 2**20:.0f} MiB of memory, which the system does not "
                f"give ({error}); restore it in tiles"
            ) from error
        if sys.platform == "linux" and size >= HUGE_PAGE:
            self._map.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(self._map, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE
        self.bytes: NDArray[np.uint8] = raw[start : start + self.size]

    @property
    def address(self) -> int:
        """Return where it starts."""
        return self.bytes.ctypes.data

    def floats(self) -> NDArray[np.float32]:
        """Return the memory as numbers."""
        return self.bytes[: self.size // 4 * 4].view(np.float32)
