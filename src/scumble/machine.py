"""The machine that figures belong to, and the versions of what ran on it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from scumble.version import __version__

_LIBRARIES = ("torch", "onnxruntime", "openvino", "llvmlite")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, object]:
    """Return what the figures of this machine depend on."""
    return {
        "cpu": _after_colon("/proc/cpuinfo", "model name") or platform.processor(),
        "kind": processor(),
        "cores": cores(),
        "caches": _caches(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor() -> str:
    """Return the processor's family as LLVM calls it, such as znver5; nothing without LLVM."""
    try:
        from llvmlite import binding
    except ImportError:  # a machine that only trains can do without
        return ""
    return binding.get_host_cpu_name()


def versions() -> dict[str, str | None]:
    """Return the version of everything that may have run; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "scumble": __version__}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = None
    return found


def command() -> str:
    """Return the command line, without the folder that a program lies in."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":  # python -m scumble
        program = Path(program.parent.name)
    script = program.suffix == ".py" and not program.is_absolute()
    return " ".join(["python", *sys.argv] if script else [program.name, *sys.argv[1:]])


def _caches() -> dict[str, str]:
    """Return the size of each cache of the first core."""
    found: dict[str, str] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (folder / name).read_text().strip() for name in ("level", "type", "size")
        )
        found[f"L{level} {kind.lower()}"] = size
    return found


def _memory_gib() -> float | None:
    kibibytes = _after_colon("/proc/meminfo", "MemTotal").removesuffix(" kB")
    return round(int(kibibytes) / 2**20, 1) if kibibytes else None


def _after_colon(path: str, key: str) -> str:
    """Return the first value of a key in a file of the system's; nothing where there is none."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    found = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in found if name.strip() == key), "")
