"""The processes that train together: one, or several under torchrun."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from torch import distributed, nn

from scumble.devices import pick_device
from scumble.errors import TrainingError

# How long processes wait for the first one, which may have photos to decode for hours.
PATIENCE = timedelta(days=2)


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

    def any(self, wish: bool) -> bool:
        """Return whether a process has a wish; all of them ask."""
        return wish

    def same(self, text: str) -> bool:
        """Return whether the processes have the same text; all of them ask."""
        return True

    @contextmanager
    def first(self) -> Iterator[None]:
        """Let the first process do something alone, and the others afterwards."""
        yield


class AcceleratedTeam(Team):
    """Processes that torchrun started, held together by Hugging Face Accelerate."""

    def __init__(self, device: str | None = None) -> None:
        try:
            from accelerate import Accelerator
            from accelerate.utils import InitProcessGroupKwargs
        except ImportError as error:
            raise TrainingError(
                "training in several processes needs accelerate; pip install 'scumble[train]'"
            ) from error
        super().__init__(device)
        self.accelerator: Any = Accelerator(
            cpu=self.device.type == "cpu",
            kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
        )
        # Left to the end of the interpreter, its threads may end the process with an abort.
        atexit.register(_part)
        self.device = self.accelerator.device
        self.rank = self.accelerator.process_index
        self.size = self.accelerator.num_processes

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return what to call in the place of ``network``, so that gradients are shared."""
        return self.accelerator.prepare_model(network)

    def wait(self) -> None:
        """Wait until every process is here."""
        self.accelerator.wait_for_everyone()

    def any(self, wish: bool) -> bool:
        """Return whether a process has a wish; all of them ask."""
        if wish:
            self.accelerator.set_trigger()
        return self.accelerator.check_trigger()

    def same(self, text: str) -> bool:
        """Return whether the processes have the same text; all of them ask."""
        from accelerate.utils import gather_object

        return len(set(gather_object([text]))) == 1

    @contextmanager
    def first(self) -> Iterator[None]:
        """Let the first process do something alone, and the others afterwards."""
        with self.accelerator.main_process_first():
            yield


def _part() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def gather_team(device: str | None = None) -> Team:
    """Return the team that this process belongs to."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return AcceleratedTeam(device) if several else Team(device)
