"""The processes that train together: one, or several under torchrun."""

import os
from typing import Any

from torch import nn

from scumble.devices import pick_device
from scumble.errors import TrainingError


class Team:
    """This process, and how many there are."""

    rank = 0
    size = 1

    def __init__(self, device: str | None = None) -> None:
        self.device = pick_device(device)

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return what to call in the place of ``network``, so that gradients are shared."""
        return network

    def wait(self) -> None:
        """Wait until every process is here."""


class AcceleratedTeam(Team):
    """Processes that torchrun started, held together by Hugging Face Accelerate."""

    def __init__(self, device: str | None = None) -> None:
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise TrainingError(
                "training in several processes needs accelerate; pip install 'scumble[train]'"
            ) from error
        super().__init__(device)
        self.accelerator: Any = Accelerator(cpu=self.device.type == "cpu")
        self.device = self.accelerator.device
        self.rank = self.accelerator.process_index
        self.size = self.accelerator.num_processes

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return what to call in the place of ``network``, so that gradients are shared."""
        return self.accelerator.prepare_model(network)

    def wait(self) -> None:
        """Wait until every process is here."""
        self.accelerator.wait_for_everyone()


def gather_team(device: str | None = None) -> Team:
    """Return the team that this process belongs to."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return AcceleratedTeam(device) if several else Team(device)
