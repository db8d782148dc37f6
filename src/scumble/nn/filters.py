"""The filters that a network could lose: which go together, and what the rest costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from scumble.core.ties import FIXED, Ties
from scumble.nn.channels import Channels, Flow, Product
from scumble.nn.narrowing import Places

Units = Int64[Tensor, " channels"]
Kept = Bool[Tensor, " units"]


@dataclass(frozen=True)
class Work:
    """What grows with the units that are kept: outputs times inputs, if there are any."""

    outputs: Units
    inputs: Units | None
    times: int

    def macs(self, kept: Kept) -> int:
        """Return the multiply-accumulates that are left."""
        read = 1 if self.inputs is None else int(kept[self.inputs].sum())
        return int(kept[self.outputs].sum()) * read * self.times


class Filters:
    """Units, each of them channels that go together, in classes that the same layers make.

    Unit 0 has every channel that has to stay.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        fresh, self._units = count(1), {FIXED: 0}
        for channels in (c for dims in flow.held.values() for c in dims.values()):
            for root in map(flow.ties.of, channels):
                if root not in self._units:
                    self._units[root] = next(fresh)
        self.works = [
            *(Work(self._of(p.outputs), self._read(p), p.times) for p in flow.products),
            *(Work(self._of(channels), None, times) for channels, times in flow.values),
        ]
        self.norms = self._norms()
        self.classes = self._classes()

    def keep(self, counts: Sequence[int]) -> Kept:
        """Return which units are kept when each class keeps so many of its largest."""
        kept = torch.ones(len(self._units), dtype=torch.bool)
        for units, number in zip(self.classes, counts, strict=True):
            kept[units[number:]] = False
        return kept

    def macs(self, counts: Sequence[int]) -> int:
        """Return what grows with the number of filters kept in each class."""
        kept = self.keep(counts)
        return sum(work.macs(kept) for work in self.works)

    def places(self, counts: Sequence[int]) -> dict[Tensor, Places]:
        """Return what stays of every parameter and buffer."""
        kept = self.keep(counts)
        return {
            tensor: {dim: kept[self._of(c)].nonzero().flatten() for dim, c in dims.items()}
            for tensor, dims in self.flow.held.items()
        }

    def _of(self, channels: Channels) -> Units:
        return torch.tensor([self._units[self.flow.ties.of(c)] for c in channels])

    def _read(self, product: Product) -> Units | None:
        return None if product.inputs is None else self._of(product.inputs)

    @torch.no_grad()
    def _norms(self) -> Float64[Tensor, " units"]:
        """Return the L1 norm of each unit: of all filters together that make its channels."""
        norms = torch.zeros(len(self._units), dtype=torch.float64)
        for weight, outputs in self.flow.filters.items():
            sums = weight.detach().double().abs().transpose(0, outputs).flatten(1).sum(1)
            norms.index_add_(0, self._of(self.flow.held[weight][outputs]), sums.cpu())
        return norms

    def _classes(self) -> list[Units]:
        """Return the units of each class, the largest first."""
        together, made = Ties(), set[int]()
        together.new(len(self._units) - 1)
        for weight, outputs in self.flow.filters.items():
            units = {*self._of(self.flow.held[weight][outputs]).tolist()} - {0}
            together.tie(units, [min(units, default=0)] * len(units))
            made |= units
        members: dict[int, list[int]] = {}
        for unit in sorted(made):
            members.setdefault(together.of(unit), []).append(unit)
        return [
            units[self.norms[units].argsort(descending=True, stable=True)]
            for units in map(torch.tensor, members.values())
        ]
