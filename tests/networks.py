"""Small networks that tests prune."""

import torch
from torch import Tensor, nn

from scumble.nn.gate_table import first


class Tiny(nn.Module):
    """Somebody's own network: strides, dilation, shared and grouped layers, a short group."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 16, 3, stride=2, padding=1, padding_mode="reflect")
        self.shared = nn.Conv2d(16, 16, 3, padding=2, dilation=2, bias=False)
        self.again = self.shared
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.odd = nn.Conv2d(16, 10, 1)
        self.wide = nn.Conv2d(10, 16, (1, 3), padding=(0, 1))
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.tail = nn.Conv2d(16, 3, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.down(self.head(x)))
        y = y + self.grouped(self.again(self.shared(y)))
        return self.tail(self.up(self.wide(self.odd(y))))


def picture(height: int = 12, width: int = 10, batch: int = 1) -> Tensor:
    return torch.rand(batch, 3, height, width)


def keep_only(network: nn.Module, n: int) -> None:
    """Freeze an SLS search at the same N everywhere."""
    pruning = network.pruning
    pruning.table.freeze_(first([n] * len(pruning.layers), pruning.table.m))
