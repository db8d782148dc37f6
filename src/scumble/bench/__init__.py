"""Time networks on this machine, honestly: every engine at its best, taking turns."""

from scumble.bench.cases import Case, case_of, prune_layers
from scumble.bench.race import Contestant, bench, check_engines, race
from scumble.bench.report import Report, Row

__all__ = [
    "Case",
    "Contestant",
    "Report",
    "Row",
    "bench",
    "case_of",
    "check_engines",
    "prune_layers",
    "race",
]
