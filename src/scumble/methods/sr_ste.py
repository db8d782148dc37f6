"""SR-STE: Zhou et al., "Learning N:M Fine-Grained Structured Sparse Neural Networks From Scratch".

The N largest weights of every group run; all weights learn, and those that do not run fade, so that
a network can be trained sparse from its first step (2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from torch import nn

from scumble.core.cost import LayerCost
from scumble.core.pattern import Pattern
from scumble.errors import RecipeError
from scumble.methods.base import METHODS, Method, PruneRecord, SettledPruning, costs_of
from scumble.nn.refined_conv import RefinedConv2d
from scumble.nn.surgery import Selector, choose, replace_
from scumble.nn.tracing import trace


@METHODS.register("sr-ste")
@dataclass(frozen=True)
class SrSte(Method):
    """The same pattern for every layer, chosen anew at every step.

    >>> SrSte("8:32").settings()
    {'pattern': '8:32', 'decay': 0.0002}
    """

    name: ClassVar[str] = "sr-ste"

    pattern: Pattern | str = "2:4"  # N:M of every pruned layer
    decay: float = 2e-4  # of the weights that do not run (lambda_W), added to their gradient

    def __post_init__(self) -> None:
        if isinstance(self.pattern, str):
            object.__setattr__(self, "pattern", Pattern.parse(self.pattern))
        if self.decay < 0 or not isfinite(self.decay):
            raise RecipeError(f"SR-STE needs a finite decay of at least 0, got {self.decay}")

    def attach_(
        self,
        network: nn.Module,
        size: tuple[int, int],
        where: Selector | None = None,
        pad_groups: bool = False,
    ) -> "SrStePruning":
        """Prepare ``network`` in place; its costs are counted on a picture of ``size``."""
        assert isinstance(self.pattern, Pattern)
        layers = {
            name: RefinedConv2d(conv, self.pattern, self.decay, pad_groups)
            for name, conv in choose(network, self.pattern.m, where, pad_groups).items()
        }
        replace_(network, layers)
        return SrStePruning(self, layers, costs_of(layers, trace(network, size)))


class SrStePruning(SettledPruning):
    """Layers that choose their weights by themselves."""

    def __init__(
        self, method: SrSte, layers: dict[str, RefinedConv2d], costs: Sequence[LayerCost]
    ) -> None:
        super().__init__()
        self.method = method
        self.layers = layers  # a plain dict, not submodules
        self.dense = sum(cost.dense_macs for cost in costs)
        self.target = sum(cost.macs for cost in costs) / self.dense

    @property
    def patterns(self) -> dict[str, Pattern]:
        """Return the pattern of every pruned layer."""
        assert isinstance(self.method.pattern, Pattern)
        return dict.fromkeys(self.layers, self.method.pattern)

    def record(self) -> PruneRecord:
        """Return how the network is pruned."""
        return PruneRecord(self.method.name, self.method.settings())
