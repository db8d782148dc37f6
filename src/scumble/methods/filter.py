"""Filter pruning: Li et al., "Pruning Filters for Efficient ConvNets", 2017.

The filters of the smallest L1 norm go, the same share of them from every layer, and with them the
channels that they made: what is left is a dense network with smaller tensors.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from scumble.core.budget import Budget
from scumble.core.pattern import Pattern
from scumble.errors import BudgetError, NetworkError
from scumble.methods.base import METHODS, Method, Plain, PruneRecord, SettledPruning, budget_share
from scumble.nn.channels import Flow, follow_channels
from scumble.nn.filters import Filters
from scumble.nn.narrowing import narrow_
from scumble.nn.surgery import PICTURE_CHANNELS, Selector, convolutions, patterns
from scumble.nn.tracing import trace


@METHODS.register("filter")
@dataclass(frozen=True)
class Filter(Method):
    """The same share of every layer's filters, by L1 norm, once.

    >>> str(Filter(budget="12.5%").budget)
    '1/8'
    """

    name: ClassVar[str] = "filter"

    budget: Budget | str | float = "1/2"  # what may remain

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", Budget.parse(self.budget))

    def settings(self) -> dict[str, Plain]:
        """Return the settings as plain data, from which ``Filter(**settings)`` is the same."""
        assert isinstance(self.budget, Budget)
        return {"budget": self.budget.plain}

    def attach_(
        self,
        network: nn.Module,
        size: tuple[int, int],
        where: Selector | None = None,
        pad_groups: bool = False,
    ) -> "FilterPruning":
        """Shrink ``network`` in place to the budget, counted on a picture of ``size``.

        Args:
            network: a dense network.
            size: height and width of the picture.
            where: the convolutions that may lose filters, and of whose MACs a budget is a share;
                by default all lose, and a share is of those that N:M patterns prune.
            pad_groups: changes nothing, filters have no groups.
        """
        _refuse_pruned(network)
        chosen = {n: conv for n, conv in convolutions(network) if (where or _inner)(n, conv)}
        cost = trace(network, size)
        budget = Budget.parse(self.budget)
        dense = sum(layer.dense_macs for layer in cost.layers if layer.name in chosen)
        if not dense:
            raise NetworkError("filter pruning needs a convolution to prune, found none")
        rest = cost.paper_macs - dense
        may_cost = rest + budget_share(budget, dense, cost) * dense
        filters = Filters(_flow(network, size, None if where is None else chosen))
        if not filters.classes:
            raise NetworkError(
                f"none of the filters of this {type(network).__name__} can be followed to where "
                f"their channels are read, so none can be removed; prune it to N:M patterns"
            )
        everything = filters.macs([len(units) for units in filters.classes])
        counts = same_share(filters, may_cost - (cost.paper_macs - everything))
        if counts is None:
            raise BudgetError(
                f"budget {budget} leaves {may_cost / 1e9:.6g} GMACs, and one filter in every "
                f"layer costs more; give a larger budget"
            )
        narrow_(network, filters.places(counts))
        kept = (trace(network, size).paper_macs - rest) / dense
        return FilterPruning(self, chosen, dense, kept)


class FilterPruning(SettledPruning):
    """A network that has lost its filters already."""

    def __init__(
        self, method: Filter, layers: dict[str, nn.Conv2d], dense: int, kept: float
    ) -> None:
        super().__init__()
        self.method = method
        self.layers = layers  # a plain dict, not submodules
        self.dense = dense
        self.target = kept

    @property
    def patterns(self) -> dict[str, Pattern]:
        """Return nothing: what is left is dense."""
        return {}

    def record(self) -> PruneRecord:
        """Return how the network is pruned."""
        return PruneRecord(self.method.name, self.method.settings())


def same_share(filters: Filters, target: float) -> list[int] | None:
    """Return how many filters each class keeps: the same share of all, as many as may be.

    What whole filters leave of the target is spent on one more here and there, first where the
    next one is the largest beside its own class. None if one filter each is too much.
    """
    sizes = [len(units) for units in filters.classes]

    def counts(share: float) -> list[int]:
        return [max(1, int(share * size + 1e-9)) for size in sizes]

    shares = sorted({number / size for size in sizes for number in range(1, size + 1)})
    fitting = bisect_right(shares, target, key=lambda share: filters.macs(counts(share)))
    if not fitting:
        return None
    found = counts(shares[fitting - 1])
    for index in _by_worth(filters, found):
        more = [number + (place == index) for place, number in enumerate(found)]
        if filters.macs(more) <= target:
            found = more
    return found


def _by_worth(filters: Filters, counts: Sequence[int]) -> list[int]:
    """Return the classes that have filters left, by how large the next is beside the average."""
    norms = [filters.norms[units] for units in filters.classes]
    left = [place for place, of in enumerate(norms) if counts[place] < len(of)]
    worth = {place: float(norms[place][counts[place]] / norms[place].mean()) for place in left}
    return sorted(left, key=lambda place: -worth[place])


def _flow(network: nn.Module, size: tuple[int, int], chosen: dict[str, nn.Conv2d] | None) -> Flow:
    """Return how channels go through a network, of which only those of chosen layers may go."""
    flow = follow_channels(network, size)
    weights = None if chosen is None else {conv.weight for conv in chosen.values()}
    for weight, outputs in flow.filters.items():
        if weights is not None and weight not in weights:
            flow.ties.fix(flow.held[weight][outputs])
    return flow


def _inner(name: str, conv: nn.Conv2d) -> bool:
    """Return whether N:M patterns prune such a layer: neither the first one nor the painter."""
    return conv.groups == 1 and min(conv.in_channels, conv.out_channels) > PICTURE_CHANNELS


def _refuse_pruned(network: nn.Module) -> None:
    name = next(iter(patterns(network)), None)
    if name is not None:
        raise NetworkError(
            f"filter pruning needs a dense network, got one whose layer {name} has a pattern"
        )
