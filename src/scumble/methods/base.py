"""What a pruning method promises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from scumble.core.budget import Budget
from scumble.core.cost import LayerCost, NetworkCost
from scumble.core.pattern import Pattern
from scumble.errors import BudgetError, NetworkError
from scumble.nn.gate_table import GateTable
from scumble.nn.masked_conv import MaskedConv2d
from scumble.nn.sparse_conv import SparseConv2d
from scumble.nn.surgery import Selector, densify_
from scumble.registry import Registry

Plain = str | int | float | bool | None  # what JSON holds as it is


@dataclass(frozen=True)
class PruneRecord:
    """How a network came to be pruned; its checkpoint carries this."""

    method: str
    settings: Mapping[str, Plain] = field(default_factory=dict)
    scores: Mapping[str, list[float]] = field(default_factory=dict)  # at the end, by layer


class Pruning(nn.Module, ABC):
    """A method at work: attached to the network it prunes as ``network.pruning``."""

    dense: int  # MACs of the prunable layers, all of them kept
    target: float  # share of these that may be kept

    @property
    @abstractmethod
    def patterns(self) -> dict[str, Pattern]:
        """Return the pattern of every pruned layer now."""

    @property
    @abstractmethod
    def kept(self) -> float:
        """Return the share of the prunable layers' MACs that is kept now."""

    @property
    @abstractmethod
    def reached(self) -> bool:
        """Return whether the budget is met, so that the patterns are final."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes in: a network that runs its children in turn runs this one too."""
        return x

    @abstractmethod
    def penalty(self) -> Tensor:
        """Return what to add to the loss."""

    @abstractmethod
    def step(self) -> None:
        """Advance by one training step; call it after the optimizer's."""

    @abstractmethod
    def record(self) -> PruneRecord:
        """Return how the network is pruned."""

    def finish_(self, network: nn.Module) -> PruneRecord:
        """Make ``network`` plain again, pruned for good, and say how it was done."""
        record = self.record()
        densify_(network)
        return record


class GatedPruning(Pruning):
    """A pruning that works by gates on the ranks of sparse convolutions."""

    def __init__(
        self, network: nn.Module, layers: dict[str, SparseConv2d], table: GateTable
    ) -> None:
        super().__init__()
        self.table = table
        self.layers = layers  # row i of the table is the i-th; a plain dict, not submodules
        self.served = table.serve(network)

    @property
    def patterns(self) -> dict[str, Pattern]:
        """Return the pattern of every pruned layer now."""
        counts = zip(self.layers, self.table.counts(), strict=True)
        return {name: Pattern(n, self.table.m) for name, n in counts}

    def finish_(self, network: nn.Module) -> PruneRecord:
        """Make ``network`` plain again, with zeros in place, and say how it was done."""
        for handle in self.served:
            handle.remove()
        return super().finish_(network)


class SettledPruning(Pruning):
    """A pruning whose budget is met before training begins: there is nothing to steer."""

    layers: Mapping[str, nn.Conv2d]  # that are pruned

    @property
    def kept(self) -> float:
        """Return the share of the prunable layers' MACs that is kept."""
        return self.target

    @property
    def reached(self) -> bool:
        """Return whether the budget is met: from the start."""
        return True

    def penalty(self) -> Tensor:
        """Return zero: nothing pushes."""
        return torch.zeros((), device=next(iter(self.layers.values())).weight.device)

    def step(self) -> None:
        """Do nothing: training goes on as it is."""


@dataclass(frozen=True)
class Method(ABC):
    """A way to prune, and its settings."""

    name: ClassVar[str]

    @abstractmethod
    def attach_(
        self,
        network: nn.Module,
        size: tuple[int, int],
        where: Selector | None = None,
        pad_groups: bool = False,
    ) -> Pruning:
        """Prepare ``network`` in place and return the pruning that will steer it."""

    def settings(self) -> dict[str, Plain]:
        """Return the settings as plain data."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: v if isinstance(v, Plain) else str(v) for name, v in values}


def costs_of(layers: Mapping[str, MaskedConv2d], cost: NetworkCost) -> list[LayerCost]:
    """Return the costs of masked layers in the cost of their network, which must run them all."""
    found = {layer.name: layer for layer in cost.layers}
    for name in layers:
        if name not in found or name not in cost.ran:
            raise NetworkError(
                f"layer {name} is not run as a module, so it cannot be pruned; "
                f"leave it out (where=), or call the module itself"
            )
    return [found[name] for name in layers]


def budget_share(budget: Budget, dense: int, cost: NetworkCost) -> float:
    """Return the budget as a share of the prunable MACs, of which there are ``dense``."""
    rest = cost.paper_macs - dense
    share = budget.target(dense, rest) / dense
    if share <= 0:
        raise BudgetError(
            f"budget {budget} is not above the {rest / 1e9:.6g} GMACs of the layers that stay "
            f"dense anyway; give more MACs, or a share such as 1/8"
        )
    if share > 1:
        raise BudgetError(
            f"budget {budget} is above the {cost.paper_macs / 1e9:.6g} GMACs "
            f"of the whole network; there is nothing to prune"
        )
    return share


METHODS: Registry[type[Method]] = Registry("method")
