"""A convolution that chooses its largest weights anew whenever it runs."""

import torch
from torch import Tensor, nn

from scumble.core.packing import largest
from scumble.core.pattern import Pattern
from scumble.core.straight_through import refined
from scumble.nn.masked_conv import MaskedConv2d


class RefinedConv2d(MaskedConv2d):
    """``nn.Conv2d`` of which the N largest weights in each group count, and all of them learn."""

    def __init__(
        self, conv: nn.Conv2d, pattern: Pattern, decay: float, pad_groups: bool = False
    ) -> None:
        super().__init__(conv, pad_groups)
        self.fixed = pattern
        self.decay = decay

    @property
    def pattern(self) -> Pattern:
        """Return the pattern, which never changes."""
        return self.fixed

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's own name)
        """Return the convolution with the weights that are the largest now."""
        return self._conv_forward(input, refined(self.weight, self.kept(), self.decay), self.bias)

    @torch.no_grad()
    def kept(self) -> Tensor:
        """Return a mask of the weights that are the largest now."""
        return largest(self.weight, self.fixed, self.pad_groups)
