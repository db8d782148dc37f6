"""One-shot N:M pruning: Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021.

The N largest weights of every group of a trained network are chosen once, and trained further.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from scumble.core.cost import LayerCost
from scumble.core.pattern import Pattern
from scumble.methods.base import (
    METHODS,
    GatedPruning,
    Method,
    PruneRecord,
    SettledPruning,
    costs_of,
)
from scumble.nn.gate_table import FixedGates
from scumble.nn.sparse_conv import SparseConv2d
from scumble.nn.surgery import Selector, choose, sparsify_
from scumble.nn.tracing import trace


@METHODS.register("oneshot")
@dataclass(frozen=True)
class OneShot(Method):
    """The same pattern for every layer, by magnitude, once.

    >>> OneShot("8:32").settings()
    {'pattern': '8:32'}
    """

    name: ClassVar[str] = "oneshot"

    pattern: Pattern | str = "2:4"  # N:M of every pruned layer

    def __post_init__(self) -> None:
        if isinstance(self.pattern, str):
            object.__setattr__(self, "pattern", Pattern.parse(self.pattern))

    def attach_(
        self,
        network: nn.Module,
        size: tuple[int, int],
        where: Selector | None = None,
        pad_groups: bool = False,
    ) -> "OneShotPruning":
        """Prepare ``network`` in place; its costs are counted on a picture of ``size``."""
        assert isinstance(self.pattern, Pattern)
        chosen = choose(network, self.pattern.m, where, pad_groups)
        table = FixedGates([self.pattern.n] * len(chosen), self.pattern.m)
        table.to(next(iter(chosen.values())).weight.device)
        layers = sparsify_(network, chosen, table, pad_groups)
        return OneShotPruning(self, network, layers, table, costs_of(layers, trace(network, size)))


class OneShotPruning(SettledPruning, GatedPruning):
    """Fixed gates over fixed ranks."""

    def __init__(
        self,
        method: OneShot,
        network: nn.Module,
        layers: dict[str, SparseConv2d],
        table: FixedGates,
        costs: Sequence[LayerCost],
    ) -> None:
        super().__init__(network, layers, table)
        self.method = method
        self.dense = sum(cost.dense_macs for cost in costs)
        self.target = sum(cost.macs for cost in costs) / self.dense

    def record(self) -> PruneRecord:
        """Return how the network is pruned."""
        return PruneRecord(self.method.name, self.method.settings())
