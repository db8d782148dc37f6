"""What an engine promises."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Job:
    """What is to be run: no tensors, so that a laptop can ask what a GPU engine would refuse."""

    network: str  # its class
    device: str  # cpu, cuda ...
    dtype: str  # float32 ...
    training: bool = False  # whether it would behave as in training

    @classmethod
    def of(cls, network: nn.Module) -> "Job":
        """Describe a network by its class and its parameters and buffers."""
        held = (leaf for leaf in tree_leaves(network.state_dict()) if isinstance(leaf, Tensor))
        first = next((one for one in held if one.is_floating_point()), torch.empty(0))
        dtype = str(first.dtype).removeprefix("torch.")
        return cls(type(network).__name__, first.device.type, dtype, network.training)

    def __str__(self) -> str:
        return f"{self.network} ({self.dtype}, {self.device})"


class Compiled(ABC):
    """A network made ready by an engine: same pictures in, same pictures out."""

    engine: str  # the name of the engine

    @abstractmethod
    def __call__(self, image: Tensor) -> Tensor:
        """Return what the network makes of pictures ``[B, C, H, W]``."""

    @abstractmethod
    def explain(self) -> str:
        """Return how the network is run, and what is not run natively and why."""


class Engine(ABC):
    """One way to run a network."""

    name: ClassVar[str]

    @abstractmethod
    def refusals(self, job: Job) -> list[str]:
        """Return why this engine cannot run ``job``; nothing means that it can."""

    @abstractmethod
    def compile(self, network: nn.Module, threads: int | None = None) -> Compiled:
        """Make a network ready to run on ``threads`` threads; None for all there are."""
