"""This machine, as far as plans depend on it."""

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scumble.engines.cpu.kernels import Kernels

_SIZES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_COMMON_CACHE = 1 << 20  # bytes, where the system does not say


@dataclass(frozen=True)
class Machine:
    """What a plan is made for."""

    kernels: Kernels
    threads: int
    cache: int  # bytes of a core's second-level cache


@cache
def second_level_cache() -> int:
    """Return the bytes of a core's second-level cache."""
    for index in sorted(_SIZES.glob("index*")):
        try:
            if (index / "level").read_text().strip() == "2":
                size = (index / "size").read_text().strip()
                return int(size[:-1]) * _UNITS[size[-1]] if size[-1] in _UNITS else int(size)
        except (OSError, ValueError):
            continue
    return _COMMON_CACHE


@cache
def give_way() -> int:
    """Return the address of a function that lets another thread run."""
    library = ctypes.CDLL(None) if os.name == "posix" else ctypes.CDLL("kernel32")
    function = library.sched_yield if os.name == "posix" else library.SwitchToThread
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def free_memory() -> int | None:
    """Return the bytes that can still be had; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration, IndexError):
        return None
    return min(free << 10, _free_in_group())


def _free_in_group() -> int:
    """Return what the control group of this process leaves, if one limits it."""
    base = Path("/sys/fs/cgroup")
    try:
        limit = (base / "memory.max").read_text().strip()
        used = int((base / "memory.current").read_text())
        return max(0, int(limit) - used)
    except (OSError, ValueError):
        return 1 << 62
