"""Which engines there are, and what each of them says to a network on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from scumble.engines.base import Engine, Job
from scumble.engines.dispatch import ENGINES


@dataclass(frozen=True)
class Standing:
    """What one engine says to one network, device by device."""

    engine: str
    about: str
    refusals: Mapping[str, Sequence[str]]  # by device; none means that it runs there

    @property
    def runs_on(self) -> list[str]:
        """Return the devices of this machine that the engine runs the network on."""
        return [device for device, reasons in self.refusals.items() if not reasons]

    def __str__(self) -> str:
        if self.runs_on:
            return f"{self.engine} runs it on {' and '.join(self.runs_on)}: {self.about}"
        told = "; ".join(
            f"on {device}: {', '.join(reasons)}" for device, reasons in self.refusals.items()
        )
        return f"{self.engine} does not run it; {told}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        refusals = {device: list(reasons) for device, reasons in self.refusals.items()}
        return {"runs_on": self.runs_on, "refusals": refusals, "about": self.about}


def survey(
    network: nn.Module, engines: Mapping[str, Engine] = ENGINES, gpu: bool | None = None
) -> list[Standing]:
    """Return what every engine says to a network, on each kind of device that there is."""
    gpu = torch.cuda.is_available() if gpu is None else gpu
    job = replace(Job.of(network), training=False)
    jobs = [replace(job, device=device) for device in ("cpu", *(["cuda"] if gpu else []))]
    return [
        Standing(
            name,
            (type(engine).__doc__ or "").partition("\n")[0],
            {one.device: engine.refusals(one) for one in jobs},
        )
        for name, engine in engines.items()
    ]
