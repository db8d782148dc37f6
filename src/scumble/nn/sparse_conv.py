"""A convolution that is masked to an N:M pattern."""

from typing import Any

import torch
from torch import Tensor, nn

from scumble.core.pattern import Pattern
from scumble.core.ranks import rank_in_group
from scumble.core.units import gated_sum
from scumble.nn.gate_table import GateTable


class SparseConv2d(nn.Conv2d):
    """``nn.Conv2d`` whose weight counts only where the gate of its rank is open.

    All weights stay and train. The gates stand in a table that the whole network shares: it is
    not a submodule here, so that its scores appear once among the network's parameters.
    """

    ranks: Tensor

    def __init__(
        self, conv: nn.Conv2d, table: GateTable, row: int, pad_groups: bool = False
    ) -> None:
        super().__init__(**_shape_of(conv), device="meta")
        self.weight, self.bias = conv.weight, conv.bias
        self.train(conv.training)
        self.row = row
        self.pad_groups = pad_groups
        self._table = (table,)
        self.register_buffer("ranks", self._current_ranks())

    @property
    def table(self) -> GateTable:
        """Return the gates of the network that this layer belongs to."""
        return self._table[0]

    @property
    def pattern(self) -> Pattern:
        """Return the pattern that the gates give now."""
        return Pattern(int(self.table.row(self.row).sum()), self.table.m)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's own name)
        """Return the convolution with the kept weights."""
        weight = gated_sum(self.weight, self.table.row(self.row), self.ranks)
        return self._conv_forward(input, weight, self.bias)

    def rerank_(self) -> None:
        """Rank the weights anew, by what they are now."""
        self.ranks.copy_(self._current_ranks())

    @torch.no_grad()
    def to_dense(self) -> nn.Conv2d:
        """Return a plain convolution with zeros in place of the weights that do not count."""
        conv = nn.Conv2d(**_shape_of(self), device="meta")
        keep = self.table.row(self.row).bool()[self.ranks.int()]
        conv.weight = nn.Parameter(
            torch.where(keep, self.weight, 0.0), requires_grad=self.weight.requires_grad
        )
        conv.bias = self.bias
        return conv.train(self.training)

    @torch.no_grad()
    def _current_ranks(self) -> Tensor:
        return rank_in_group(self.weight, self.table.m, self.pad_groups)


def _shape_of(conv: nn.Conv2d) -> dict[str, Any]:
    """Return the arguments that make a convolution of the same shape."""
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")
    return {name: getattr(conv, name) for name in (*names, "groups", "padding_mode")}
