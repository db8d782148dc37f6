"""The seam: which engine runs a network, and why not the others."""

import logging
import os
from collections.abc import Sequence

from torch import nn

from scumble.engines.base import Compiled, Engine, Job
from scumble.engines.cpu.engine import Cpu
from scumble.engines.reference import Reference
from scumble.errors import EngineError
from scumble.registry import unknown_name

AUTO = "auto"
_ALL: tuple[Engine, ...] = (Cpu(), Reference())
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}

# The fastest first; ``reference`` takes whatever is left.
PREFERENCE = ("cpu", "reference")

log = logging.getLogger(__name__)


def compile(network: nn.Module, engine: str = AUTO, threads: int | None = None) -> Compiled:
    """Return ``network`` made ready by an engine: same outputs, faster.

    Args:
        network: any module that takes pictures ``[B, C, H, W]``; it is not changed.
        engine: the name of an engine, or ``auto`` for the fastest that accepts the network.
        threads: how many threads to run on; by default as many as there are cores.

    >>> import scumble, torch
    >>> fast = scumble.compile(scumble.build("edsr-x2", blocks=1), engine="reference")
    >>> fast(torch.rand(1, 3, 8, 8)).shape
    torch.Size([1, 3, 16, 16])
    """
    if threads is not None and threads < 1:
        raise EngineError(f"an engine runs on at least 1 thread, got {threads}")
    if engine not in ENGINES and engine != AUTO:
        raise unknown_name("engine", engine, [*ENGINES, AUTO])
    chosen = choose(Job.of(network), PREFERENCE if engine == AUTO else [engine])
    return chosen.compile(network, threads or len(os.sched_getaffinity(0)))


def choose(job: Job, names: Sequence[str] = PREFERENCE) -> Engine:
    """Return the first engine of ``names`` that accepts ``job``; say which ones did not."""
    refusals = {name: ENGINES[name].refusals(job) for name in names}
    for name, reasons in refusals.items():
        if not reasons:
            return ENGINES[name]
        if len(names) > 1:
            log.warning("engine %s cannot run %s: %s", name, job, "; ".join(reasons))
    lines = [f"  {name}: {'; '.join(reasons)}" for name, reasons in refusals.items()]
    raise EngineError("\n".join([f"no engine can run {job}", *lines]))
