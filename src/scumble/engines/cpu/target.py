"""What code is made for: the vectors of this machine, and LLVM's view of it."""

import os
import platform
from dataclasses import dataclass
from functools import cache

from llvmlite import binding as llvm

from scumble.errors import EngineError
from scumble.registry import unknown_name

# Set to one of TARGETS to use narrower vectors than the machine has.
VARIABLE = "SCUMBLE_VECTORS"


@dataclass(frozen=True)
class Target:
    """Vectors of ``lanes`` floats, and the processor whose instructions may be used."""

    name: str
    lanes: int
    fused: bool  # multiplies and adds in one instruction
    processor: str  # as LLVM names it; empty for this one
    features: str
    needs: str = ""  # feature that the machine must have
    most_sums: int = 12  # vectors of a tile; the other registers hold weights and addresses


TARGETS = {
    target.name: target
    for target in (
        Target("avx512", 16, True, "", "-prefer-256-bit", "avx512f", 24),
        Target("avx2", 8, True, "haswell", "", "avx2"),
        Target("sse2", 4, False, "x86-64", ""),
        Target("neon", 4, True, "", "", most_sums=24),
    )
}


@cache
def host_features() -> dict[str, bool]:
    """Return what LLVM found this machine to have."""
    return dict(llvm.get_host_cpu_features())


def available() -> list[Target]:
    """Return the targets that this machine can run, the widest first."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return [TARGETS["neon"]]
    if machine not in ("x86_64", "amd64"):
        return []
    found = [TARGETS[name] for name in ("avx512", "avx2", "sse2")]
    has = host_features()
    return [one for one in found if not one.needs or (has.get(one.needs) and has.get("fma"))]


def target() -> Target:
    """Return the widest target, or the one that ``SCUMBLE_VECTORS`` asks for."""
    usable = {one.name: one for one in available()}
    wanted = os.environ.get(VARIABLE)
    if not usable:
        raise EngineError(
            f"the cpu engine makes code for x86-64 and 64-bit ARM, "
            f'this machine is {platform.machine()}; use engine="reference"'
        )
    if not wanted:
        return next(iter(usable.values()))
    if wanted not in TARGETS:
        raise unknown_name(f"vector width in {VARIABLE}", wanted, TARGETS)
    if wanted not in usable:
        raise EngineError(
            f"{VARIABLE}={wanted} needs a machine that has it; this one has {', '.join(usable)}"
        )
    return usable[wanted]
