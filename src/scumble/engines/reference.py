"""Plain PyTorch: slow, always right."""

import copy

import torch
from torch import Tensor, nn

from scumble.engines.base import Compiled, Engine, Job


class Reference(Engine):
    """Runs the network as it is."""

    name = "reference"

    def refusals(self, job: Job) -> list[str]:
        """Return nothing: what PyTorch runs, this runs."""
        return []

    def compile(self, network: nn.Module, threads: int | None = None) -> Compiled:
        """Return a copy of the network to evaluate."""
        return CompiledReference(copy.deepcopy(network).eval(), threads)


class CompiledReference(Compiled):
    """A network in PyTorch, to evaluate."""

    engine = Reference.name

    def __init__(self, network: nn.Module, threads: int | None) -> None:
        self.network = network
        self.threads = threads

    def __call__(self, image: Tensor) -> Tensor:
        """Return what the network makes of pictures."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            with torch.inference_mode():
                return self.network(image).clone()
        finally:
            torch.set_num_threads(before)

    def explain(self) -> str:
        """Say that PyTorch runs it all."""
        return f"{type(self.network).__name__} runs in PyTorch (engine {self.engine})"
