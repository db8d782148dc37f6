"""A convolution whose pattern is said by gates."""

import torch
from torch import Tensor, nn

from scumble.core.pattern import Pattern
from scumble.core.ranks import rank_in_group
from scumble.core.units import gated_sum
from scumble.nn.gate_table import GateTable
from scumble.nn.masked_conv import MaskedConv2d


class SparseConv2d(MaskedConv2d):
    """``nn.Conv2d`` whose weight counts only where the gate of its rank is open.

    All weights stay and train. The gates stand in a table that the whole network shares: it is
    not a submodule here, so that its scores appear once among the network's parameters.
    """

    ranks: Tensor

    def __init__(
        self, conv: nn.Conv2d, table: GateTable, row: int, pad_groups: bool = False
    ) -> None:
        super().__init__(conv, pad_groups)
        self.row = row
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

    def kept(self) -> Tensor:
        """Return a mask of the weights whose gate is open."""
        return self.table.row(self.row).bool()[self.ranks.int()]

    def rerank_(self) -> None:
        """Rank the weights anew, by what they are now."""
        self.ranks.copy_(self._current_ranks())

    @torch.no_grad()
    def _current_ranks(self) -> Tensor:
        return rank_in_group(self.weight, self.table.m, self.pad_groups)
