"""What is timed: a network, pruned in one way."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from scumble.core.pattern import Pattern
from scumble.errors import PatternError
from scumble.nn.gate_table import FixedGates
from scumble.nn.surgery import choose, densify_, patterns, sparsify_

DENSE = "dense"
OWN = "own"  # the patterns that the network came with


@dataclass(frozen=True)
class Case:
    """A network and how it is pruned, in words that stand in tables."""

    network: str
    pattern: str  # such as 2:32, dense or own
    module: nn.Module

    def __str__(self) -> str:
        return f"{self.network} {self.pattern}"


def case_of(name: str, network: nn.Module, pattern: str | None = None) -> Case:
    """Return a copy of a network to time: pruned to ``N:M`` by magnitude, dense, or as it is."""
    found = patterns(network)
    if pattern is None:
        return Case(name, OWN if found else DENSE, _ready(network))
    if found:
        raise PatternError(
            f"pruning to {pattern} needs a dense network, got {name}, whose layer "
            f"{next(iter(found))} has a pattern; leave the pattern out"
        )
    if pattern == DENSE:
        return Case(name, DENSE, _ready(network))
    wanted = Pattern.parse(pattern)
    counts = [wanted.n] * len(choose(network, wanted.m))
    return Case(name, str(wanted), _ready(prune_layers(network, counts, wanted.m)))


def prune_layers(network: nn.Module, counts: Sequence[int], m: int = 32) -> nn.Module:
    """Return a copy pruned by magnitude, with an N of its own for every prunable layer in order.

    >>> import scumble
    >>> pruned = prune_layers(scumble.build("edsr-x2", blocks=1), [2, 1, 5, 8])
    >>> str(pruned.body[0].conv2.pattern)
    '1:32'
    """
    pruned = copy.deepcopy(network)
    chosen = choose(pruned, m)
    if len(counts) != len(chosen):
        raise PatternError(
            f"{type(network).__name__} needs an N for each of its {len(chosen)} prunable layers, "
            f"got {len(counts)}"
        )
    for n in counts:
        Pattern(n, m)
    sparsify_(pruned, chosen, FixedGates(list(counts), m))
    densify_(pruned)
    return pruned


def _ready(network: nn.Module) -> nn.Module:
    """Return a copy in float32, to evaluate: what every engine is timed on."""
    return copy.deepcopy(network).float().eval()
