"""SLS: Oh et al., "Attentive Fine-Grained Structured Sparsity for Image Restoration", 2022.

Every layer learns by itself how many ranks it keeps, under a growing pressure of the MACs that
they cost, until the whole network meets its budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from math import isfinite, prod
from typing import ClassVar, TypeVar, get_args

import torch
from torch import Tensor, nn

from scumble.core.budget import Budget, Pressure, PressureSchedule, Progress, land
from scumble.core.cost import NetworkCost, gated_macs, macs_per_rank
from scumble.core.gates import SCORE_CEILING, THRESHOLD
from scumble.core.pattern import LARGEST_GROUP
from scumble.errors import BudgetError, NetworkError, RecipeError
from scumble.methods.base import (
    METHODS,
    GatedPruning,
    Method,
    Plain,
    PruneRecord,
    budget_share,
    costs_of,
)
from scumble.nn.gate_table import LearnedGates
from scumble.nn.sparse_conv import SparseConv2d
from scumble.nn.surgery import Selector, choose, sparsify_
from scumble.nn.tracing import trace

PROGRESS = get_args(Progress)

T = TypeVar("T")


@METHODS.register("sls")
@dataclass(frozen=True)
class SLS(Method):
    """Layer-wise patterns, learned. The defaults are those of the authors' code for SR.

    >>> str(SLS(m=32, budget="12.5%").budget)
    '1/8'
    """

    name: ClassVar[str] = "sls"

    m: int = 32  # group size
    budget: Budget | str | float = "1/2"  # what may remain
    pressure: float = 1e-10 / 255  # first loss per MAC; the paper's, for pictures in 0..1
    patch: tuple[int, int] | str = (48, 48)  # height x width on which pressure counts MACs
    growth: float = 1.1  # of the pressure, when pruning stalls (alpha)
    min_progress: float = 0.2  # up to this, pruning stalls (T)
    progress: Progress = "ratio"  # of what: dense/kept MACs, or the share kept
    look_every: int = 2000  # steps between two looks at the progress (K epochs)
    anneal: bool = True  # let the pressure grow; else it stays what it is (Table 3)
    ordered: bool = True  # priorities are products of scores (POP); else scores alone (Table 3)
    rerank_every: int = 1000  # steps between two rankings of the weights; 0: never
    check_every: int = 1  # steps between two looks at the budget
    ceiling: float = SCORE_CEILING  # of the scores
    land: bool = True  # spend what the last step saved too much (core.budget.land)

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", Budget.parse(self.budget))
        if isinstance(self.patch, str):
            sides = tuple(int(side) for side in self.patch.split("x") if side.isdigit())
            object.__setattr__(self, "patch", sides)
        wrong = [need for need, met in self._needs() if not met]
        if wrong:
            raise RecipeError(f"SLS needs {'; '.join(wrong)}")

    def settings(self) -> dict[str, Plain]:
        """Return the settings as plain data, from which ``SLS(**settings)`` is the same again."""
        assert isinstance(self.budget, Budget)
        patch = "x".join(map(str, self.sides))
        return {**super().settings(), "budget": self.budget.plain, "patch": patch}

    @property
    def sides(self) -> tuple[int, ...]:
        """Return height and width of the patch."""
        assert not isinstance(self.patch, str)
        return self.patch

    def _needs(self) -> list[tuple[str, bool]]:
        """Return what the settings need to be, and whether they are."""
        finite = all(map(isfinite, (self.pressure, self.growth, self.min_progress, self.ceiling)))
        every = (self.look_every, self.check_every)
        return [
            (f"numbers that are finite, got {self}", finite),
            (f"groups of 2 to {LARGEST_GROUP}, got m={self.m}", 2 <= self.m <= LARGEST_GROUP),
            (f"a pressure above 0, got {self.pressure}", self.pressure > 0),
            (f"a growth above 1, got {self.growth}", self.growth > 1),
            (f"min_progress of at least 0, got {self.min_progress}", self.min_progress >= 0),
            (f"progress 'ratio' or 'share', got {self.progress!r}", self.progress in PROGRESS),
            (f"a ceiling above {THRESHOLD}, got {self.ceiling}", self.ceiling > THRESHOLD),
            (f"steps of at least 1, got {every}", min(every) >= 1),
            (f"rerank_every of at least 0, got {self.rerank_every}", self.rerank_every >= 0),
            (
                f"a patch of height and width, such as (48, 48), got {self.patch}",
                len(self.sides) == 2 and min(self.sides) >= 1,
            ),
        ]

    @classmethod
    def as_published(cls, m: int = 32, budget: Budget | str | float = "1/2") -> "SLS":
        """Return the settings of the paper's text, where the authors' code differs."""
        return cls(
            m,
            budget,
            min_progress=0.1,
            progress="share",
            rerank_every=10_000,
            ceiling=1.0,
            land=False,
        )

    def attach_(
        self,
        network: nn.Module,
        size: tuple[int, int],
        where: Selector | None = None,
        pad_groups: bool = False,
    ) -> "SLSPruning":
        """Prepare ``network`` in place, with its budget counted on a picture of ``size``."""
        chosen = choose(network, self.m, where, pad_groups)
        table = LearnedGates(len(chosen), self.m, self.ceiling, self.ordered)
        table.to(next(iter(chosen.values())).weight.device)
        layers = sparsify_(network, chosen, table, pad_groups)
        return SLSPruning(self, network, layers, table, trace(network, size), size)


class SLSPruning(GatedPruning):
    """The search at work."""

    macs: Tensor  # that every rank of every layer costs, [layers, m]; `rank_macs` is exact
    pressure_now: Tensor  # where the loss is made, and per MAC of the budget's picture

    def __init__(
        self,
        method: SLS,
        network: nn.Module,
        layers: dict[str, SparseConv2d],
        table: LearnedGates,
        cost: NetworkCost,
        size: tuple[int, int],
    ) -> None:
        super().__init__(network, layers, table)
        self.table: LearnedGates = table
        self.method = method
        self.schedule = PressureSchedule(method.growth, method.min_progress, method.progress)
        self.pressure = Pressure(method.pressure)
        self.steps = 0
        self.known_reached = False
        # The budget is counted on the picture that the user named, the pressure on the patch.
        self.patch_share = prod(method.sides) / prod(size)
        self.rank_macs = [
            macs_per_rank(layer.shape, layer.positions, method.m)
            for layer in costs_of(layers, cost)
        ]
        self.register_buffer("macs", torch.empty(0), persistent=False)
        self.register_buffer("pressure_now", torch.empty(0), persistent=False)
        self._bring_to_device()
        self.dense = sum(map(sum, self.rank_macs))
        self.target = self._target(cost, least=sum(first for first, *_ in self.rank_macs))

    @property
    def kept(self) -> float:
        """Return the share of the prunable layers' MACs that is kept now."""
        return self._cost_now() / self.dense

    @property
    def reached(self) -> bool:
        """Return whether the budget is met and the scores are frozen."""
        # Asking a GPU means to wait for it; what is frozen stays so.
        self.known_reached = self.known_reached or bool(self.table.frozen)
        return self.known_reached

    def penalty(self) -> Tensor:
        """Return the pressure times the MACs that one patch costs (Eq. 6)."""
        pressure = torch.where(self.table.frozen, 0.0, self.pressure_now)
        return pressure * gated_macs(self.table().float(), self.macs)

    def step(self) -> None:
        """Advance by one training step: clamp, rank, test the budget, adjust the pressure."""
        self.steps += 1
        self.table.clamp_()
        if self.method.rerank_every and self.steps % self.method.rerank_every == 0:
            for layer in self.layers.values():
                layer.rerank_()
        if self.steps % self.method.check_every == 0 and not self.reached:
            self._freeze_if_met()
        looks = self.method.anneal and self.steps % self.method.look_every == 0
        if looks and not self.reached:
            self.pressure = self.schedule.step(self.pressure, self.kept)
            self._push()

    def record(self) -> PruneRecord:
        """Return how the network is pruned, with the scores when the budget was met."""
        rows = zip(self.layers, self.table.decisive.tolist(), strict=True)
        scores = {name: [float(f"{score:.6g}") for score in row] for name, row in rows}
        return PruneRecord(self.method.name, self.method.settings(), scores)

    def get_extra_state(self) -> Tensor:
        """Return what a resumed search needs besides scores, gates and ranks."""
        state = (self.steps, self.pressure.weight, self.pressure.last_kept)
        return torch.tensor(state, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Go on from where ``get_extra_state`` was called."""
        steps, weight, last_kept = state.tolist()
        self.steps, self.pressure = int(steps), Pressure(weight, last_kept)
        self.known_reached = False
        self._push()

    def _freeze_if_met(self) -> None:
        if self._cost_now() > self.target * self.dense:
            return
        if not self.table.scores.isfinite().all():
            raise NetworkError(
                "the scores of the search are no numbers any more, so training has diverged; "
                "go back to an earlier state and train with a lower learning rate"
            )
        rows = self.table().bool()
        self.table.freeze_(self._landed(rows) if self.method.land else rows)

    def _landed(self, rows: Tensor) -> Tensor:
        """Return the gates after the ranks that are still affordable were reopened."""
        priorities = self.table.priorities().tolist()
        opened = zip(rows.tolist(), priorities, strict=True)
        orders = [self._reopening(row, worth) for row, worth in opened]

        def ordered(table: list[list[T]]) -> list[list[T]]:
            pairs = zip(table, orders, strict=True)
            return [[row[rank] for rank in order] for row, order in pairs]

        counts = rows.sum(1).tolist()
        target = self.target * self.dense
        counts = land(counts, ordered(priorities), ordered(self.rank_macs), target)
        landed = torch.zeros_like(rows)
        for row, order, count in zip(landed, orders, counts, strict=True):
            row[order[:count]] = True
        return landed

    def _reopening(self, row: list[bool], priorities: list[float]) -> list[int]:
        """Return the ranks of a layer: those that are open, then the order to reopen others in."""
        ranks = list(range(self.table.m))
        if self.table.ordered:
            return ranks
        return sorted(ranks, key=lambda rank: (not row[rank], -priorities[rank]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SLSPruning":
        """Move with the network; costs and pressure are too large and too small for half floats."""
        super()._apply(fn, recurse)
        self._bring_to_device()
        return self

    def _bring_to_device(self) -> None:
        device = self.table.scores.device
        self.macs = torch.tensor(self.rank_macs, dtype=torch.float32, device=device)
        self.pressure_now = torch.empty((), dtype=torch.float32, device=device)
        self._push()

    def _push(self) -> None:
        self.pressure_now.fill_(self.pressure.weight * self.patch_share)

    def _cost_now(self) -> int:
        with torch.no_grad():
            rows = self.table().bool().tolist()
        pairs = zip(rows, self.rank_macs, strict=True)
        return sum(sum(compress(macs, row)) for row, macs in pairs)

    def _target(self, cost: NetworkCost, least: int) -> float:
        """Return the budget as a share of the prunable MACs, if patterns can meet it."""
        budget = Budget.parse(self.method.budget)
        target = budget_share(budget, self.dense, cost)
        if target < least / self.dense:
            raise BudgetError(
                f"budget {budget} leaves {target:.4f} of the prunable MACs, "
                f"but 1 weight in {self.method.m} everywhere keeps {least / self.dense:.4f}; "
                f"give a larger budget or a larger m"
            )
        return target
