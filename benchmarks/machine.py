"""What stands beside every figure: the machine, the versions and the command."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from scumble.version import __version__


def describe(device: str) -> dict[str, object]:
    """Return the machine, the versions and the command of this measurement."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "cuda": torch.version.cuda if device == "cuda" else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scumble": __version__,
        "commit": _commit(),
        "command": " ".join(["python", *sys.argv]),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str | None:
    if "SCUMBLE_COMMIT" in os.environ:
        return os.environ["SCUMBLE_COMMIT"]
    if shutil.which("git") is None:
        return None
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
