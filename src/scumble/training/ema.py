"""An exponential average of the weights, which scores better than the weights themselves."""

import copy

import torch
from torch import Tensor, nn


class Ema:
    """The averaged parameters of one network."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters: list[Tensor] = list(network.parameters())
        self.shadow = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average one step towards the parameters."""
        # A plain number as the weight: with a tensor this would wait for the device.
        torch._foreach_lerp_(self.shadow, self.parameters, weight=1 - self.decay)  # pyright: ignore

    @torch.no_grad()
    def averaged(self, network: nn.Module) -> nn.Module:
        """Return a copy of ``network`` with the averaged parameters."""
        twin = copy.deepcopy(network)
        for parameter, average in zip(twin.parameters(), self.shadow, strict=True):
            parameter.copy_(average)
        return twin

    def tensors(self) -> dict[str, Tensor]:
        """Return the average for a checkpoint."""
        return {str(index): tensor for index, tensor in enumerate(self.shadow)}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what ``tensors`` returned."""
        for index, average in enumerate(self.shadow):
            average.copy_(tensors[str(index)])
