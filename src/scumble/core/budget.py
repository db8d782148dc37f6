"""What may remain after pruning, and how hard to push towards it (Eq. 6, 7)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from scumble.errors import BudgetError

_SHARE = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*|\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*")
_FORMS = 'a share such as "1/8", "12.5%" or 0.125, or MACs such as 13.02e9'


@dataclass(frozen=True)
class Budget:
    """What may remain: a share of the prunable layers' MACs, or MACs of the whole network.

    >>> Budget.parse("1/8")
    Budget(share=0.125, macs=None)
    """

    share: float | None = None  # of the prunable layers' dense MACs: 1/8 is as dear as 4:32
    macs: float | None = None  # of the whole network, counted as the paper's tables do

    def __post_init__(self) -> None:
        given = self.share if self.macs is None else self.macs
        if given is None or (self.share is not None and self.macs is not None):
            raise BudgetError("a budget needs either a share or MACs")
        if not (0 < given <= 1 if self.macs is None else 1 < given < float("inf")):
            raise BudgetError(f"a budget is {_FORMS}, got {given!r}")

    @classmethod
    def parse(cls, given: "Budget | str | float") -> "Budget":
        """Read a share (at most 1) or a number of MACs (more than 1)."""
        if isinstance(given, Budget):
            return given
        number = None if isinstance(given, bool) else _number(given)
        if number is None or not 0 < number < float("inf"):
            raise BudgetError(f"a budget is {_FORMS}, got {given!r}")
        return cls(share=number) if number <= 1 else cls(macs=number)

    def target(self, prunable: float, rest: float) -> float:
        """Return the MACs left to the prunable layers, beside ``rest`` that nobody prunes."""
        if self.macs is None:
            assert self.share is not None
            return self.share * prunable
        return self.macs - rest

    @property
    def plain(self) -> str | float:
        """Return what ``parse`` reads back: a fraction where it is exact, else the number."""
        if self.share is None:
            assert self.macs is not None
            return self.macs
        fraction = Fraction(self.share).limit_denominator(1000)
        return str(fraction) if float(fraction) == self.share else self.share

    def __str__(self) -> str:
        return str(self.plain) if self.macs is None else f"{self.macs / 1e9:.6g} GMACs"


def _number(given: str | float) -> float | None:
    if isinstance(given, str):
        share = _SHARE.fullmatch(given)
        if share is not None:
            percent = share[3] is not None
            part, whole = (float(share[3]), 100) if percent else (int(share[1]), int(share[2]))
            if not 0 < part <= whole:
                raise BudgetError(f"a share is above 0 and at most 1, got {given!r}")
            return part / whole
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


Progress = Literal["ratio", "share"]


@dataclass(frozen=True)
class Pressure:
    """How hard pruning pushes now; a checkpoint stores it as it is."""

    weight: float  # loss per MAC (lambda in the paper)
    last_kept: float = 1.0  # share of the prunable MACs kept at the last look


@dataclass(frozen=True)
class PressureSchedule:
    """Multiply the pressure by ``growth`` whenever pruning stalls (Eq. 7)."""

    growth: float = 1.1  # alpha
    min_progress: float = 0.2  # T: progress up to this counts as stalled
    progress: Progress = "ratio"  # of dense/kept as in the authors' code, or of kept/dense (paper)

    def step(self, now: Pressure, kept: float) -> Pressure:
        """Advance one look (K epochs), given the share of prunable MACs still kept."""
        gained = now.last_kept - kept if self.progress == "share" else 1 / kept - 1 / now.last_kept
        weight = now.weight * self.growth if gained <= self.min_progress else now.weight
        return replace(now, weight=weight, last_kept=kept)


def land(
    kept: Sequence[int],
    priorities: Sequence[Sequence[float]],
    macs_per_rank: Sequence[Sequence[float]],
    target: float,
) -> list[int]:
    """Reopen ranks, the highest priority first, while the cost stays within ``target``.

    Pruning crosses its budget in steps of whole ranks and may land well below. What it spent
    too much is given back to the ranks that it was least sure to close.
    """
    landed = list(kept)
    cost = sum(sum(macs[:n]) for n, macs in zip(kept, macs_per_rank, strict=True))
    while True:
        fitting = [
            (priorities[layer][n], layer)
            for layer, n in enumerate(landed)
            if n < len(macs_per_rank[layer]) and cost + macs_per_rank[layer][n] <= target
        ]
        if not fitting:
            return landed
        _, layer = max(fitting)
        cost += macs_per_rank[layer][landed[layer]]
        landed[layer] += 1
