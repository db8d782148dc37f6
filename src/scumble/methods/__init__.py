"""Pruning methods, one per file, by name."""

from scumble.methods.base import METHODS, Method, PruneRecord, Pruning
from scumble.methods.filter import Filter
from scumble.methods.oneshot import OneShot
from scumble.methods.phases import finalize, sparsify
from scumble.methods.sls import SLS
from scumble.methods.sr_ste import SrSte

__all__ = [
    "METHODS",
    "SLS",
    "Filter",
    "Method",
    "OneShot",
    "PruneRecord",
    "Pruning",
    "SrSte",
    "finalize",
    "sparsify",
]
