"""The numbers of the paper's tables, to stand beside ours.

Oh et al., "Attentive Fine-Grained Structured Sparsity for Image Restoration", 2022.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FACTS = 8  # columns before the scores


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper."""

    table: str  # 1, 2, 3, S1, S2
    network: str  # as ours is called: carn-x4
    method: str  # dense, oneshot, filter, sr-ste, sls
    m: int | None  # group size
    budget: str  # share of the prunable MACs: 1/8
    setting: str  # what is left out, in Table 3; nothing elsewhere
    gmacs: float | None  # Table 3 has none
    parameters: int | None
    scores: Mapping[str, Mapping[str, float]]  # by data set and metric

    def score(self, data: str, metric: str = "psnr") -> float | None:
        """Return a score on a data set; None if the paper has none."""
        found = {name.lower(): scores for name, scores in self.scores.items()}
        return found.get(data.lower(), {}).get(metric)


@cache
def rows() -> tuple[PaperRow, ...]:
    """Return the rows of Tables 1, 2, 3, S1 and S2."""
    text = (files("scumble.paper") / "tables.csv").read_text()
    return tuple(map(_row, csv.DictReader(text.splitlines())))


def find(network: str, method: str, budget: str, m: int | None, setting: str) -> PaperRow | None:
    """Return the row of the paper that is about this; None if there is none.

    >>> find("carn-x4", "sls", "1/8", 32, "").score("Urban100")
    25.61
    """
    return next(_matching(network, method, budget, m, setting), None)


def _matching(
    network: str, method: str, budget: str, m: int | None, setting: str
) -> Iterator[PaperRow]:
    wanted = (network, method, budget, setting)
    for row in rows():
        same = (row.network, row.method, row.budget, row.setting) == wanted
        if same and (row.m is None or row.m == m):
            yield row


def _row(written: Mapping[str, str]) -> PaperRow:
    scores: dict[str, dict[str, float]] = {}
    for column in list(written)[_FACTS:]:
        if written[column]:
            data, _, metric = column.partition(" ")
            scores.setdefault(data, {})[metric.lower() or "psnr"] = float(written[column])
    return PaperRow(
        table=written["table"],
        network=written["network"],
        method=written["method"],
        m=int(written["m"]) if written["m"] else None,
        budget=written["budget"],
        setting=written["setting"],
        gmacs=float(written["gmacs"]) if written["gmacs"] else None,
        parameters=int(written["parameters"]) if written["parameters"] else None,
        scores=scores,
    )
