"""What all convolutions that are masked to an N:M pattern have in common."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from scumble.core.pattern import Pattern


class MaskedConv2d(nn.Conv2d, ABC):
    """``nn.Conv2d`` of which only some weights count; it has the parameters of a plain one."""

    def __init__(self, conv: nn.Conv2d, pad_groups: bool = False) -> None:
        super().__init__(**_shape_of(conv), device="meta")
        self.weight, self.bias = conv.weight, conv.bias
        self.train(conv.training)
        self.pad_groups = pad_groups

    @property
    @abstractmethod
    def pattern(self) -> Pattern:
        """Return the pattern that the weights which count follow now."""

    @abstractmethod
    def kept(self) -> Tensor:
        """Return a mask of the weights that count now."""

    @torch.no_grad()
    def to_dense(self) -> nn.Conv2d:
        """Return a plain convolution with zeros in place of the weights that do not count."""
        conv = nn.Conv2d(**_shape_of(self), device="meta")
        conv.weight = nn.Parameter(
            torch.where(self.kept(), self.weight, 0.0), requires_grad=self.weight.requires_grad
        )
        conv.bias = self.bias
        return conv.train(self.training)


def _shape_of(conv: nn.Conv2d) -> dict[str, Any]:
    """Return the arguments that make a convolution of the same shape."""
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")
    return {name: getattr(conv, name) for name in (*names, "groups", "padding_mode")}
