"""What a network is made of and what it costs, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from scumble.core.cost import LayerCost, NetworkCost
from scumble.core.packing import most_kept
from scumble.core.pattern import Pattern
from scumble.errors import PatternError
from scumble.models import spec_of
from scumble.nn.surgery import Selector, choose, convolutions, pattern_of, patterns
from scumble.nn.tracing import trace

_RIGHT_ALIGNED = ("GMACs", "share", "parameters")


@dataclass(frozen=True)
class Inspection:
    """The costs of one network at one size of picture; print it for a table."""

    network: str
    size: tuple[int, int]  # height and width of the input
    cost: NetworkCost

    def __str__(self) -> str:
        height, width = self.size
        rows = [self._row(layer) for layer in self.cost.layers]
        table = _table(("layer", "kind", "weight", "pattern", *_RIGHT_ALIGNED), rows)
        return f"{self.network} on {width}x{height}\n\n{table}\n\n{self._totals()}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        cost = self.cost
        return {
            "network": self.network,
            "width": self.size[1],
            "height": self.size[0],
            "layers": [
                {
                    "name": layer.name,
                    "kind": layer.kind,
                    "weight": list(layer.shape),
                    "positions": layer.positions,
                    "pattern": None if layer.pattern is None else str(layer.pattern),
                    "macs": layer.macs,
                    "dense_macs": layer.dense_macs,
                    "parameters": layer.parameters,
                }
                for layer in cost.layers
            ],
            "macs": {
                "conv": cost.conv_macs,
                "paper": cost.paper_macs,
                "paper_scaled_biases": cost.paper_macs_scaled,
            },
            "biases": cost.bias_additions,
            "activations": cost.activations,
            "parameters": cost.parameters,
        }

    def _row(self, layer: LayerCost) -> tuple[str, ...]:
        return (
            layer.name or "(network)",
            layer.kind,
            "x".join(map(str, layer.shape)),
            "dense" if layer.pattern is None else str(layer.pattern),
            f"{layer.macs / 1e9:.4f}",
            f"{layer.macs / max(self.cost.conv_macs, 1):.1%}",
            f"{layer.parameters:,}",
        )

    def _totals(self) -> str:
        cost = self.cost
        biases, activations = cost.bias_additions / 1e9, cost.activations / 1e9
        lines = [
            (_giga(cost.conv_macs), "conv", "the weights alone"),
            (
                _giga(cost.paper_macs),
                "paper",
                f"as in its tables: also {biases:.4f} of biases, {activations:.4f} of activations",
            ),
        ]
        if cost.paper_macs_scaled != cost.paper_macs:
            told = "its RFDN rows, and CARN's at M = 32: biases of pruned layers scaled too"
            lines.append((_giga(cost.paper_macs_scaled), "paper*", told))
        lines.append((f"{cost.parameters:,}", "parameters", "biases included"))
        return "\n".join(f"{number:>16}  {name:<10}  {told}" for number, name, told in lines)


def inspect(
    network: nn.Module,
    size: tuple[int, int] = (180, 320),
    pattern: Pattern | str | None = None,
    where: Selector | None = None,
    pad_groups: bool = False,
) -> Inspection:
    """Return what ``network`` costs on one picture of height x width; nothing is computed.

    Args:
        network: any module that takes RGB pictures ``[B, 3, H, W]``.
        size: height and width of the input.
        pattern: count as if the network were pruned to this pattern.
        where: which convolutions that pattern prunes; by default as ``sparsify`` chooses.
        pad_groups: prune other convolutions too, with a shorter last group.

    >>> import scumble
    >>> round(scumble.inspect(scumble.build("carn-x4")).cost.paper_macs / 1e9, 2)
    91.22
    """
    _check_zeros(network)
    cost = trace(network, size)
    if pattern is not None:
        _check_dense(network)
        pattern = Pattern.parse(pattern) if isinstance(pattern, str) else pattern
        pruned = choose(network, pattern.m, where, pad_groups)
        layers = (
            replace(layer, pattern=pattern) if layer.name in pruned else layer
            for layer in cost.layers
        )
        cost = replace(cost, layers=tuple(layers))
    spec = spec_of(network)
    return Inspection(str(spec) if spec else type(network).__name__, size, cost)


def _check_dense(network: nn.Module) -> None:
    """Refuse to count a network as if pruned that is pruned already, or being pruned."""
    name = next(iter(patterns(network)), None)
    if name is not None:
        raise PatternError(
            f"counting as if pruned needs a dense network, got one whose layer {name} has a "
            f"pattern; leave pattern out to count what it has"
        )


def _check_zeros(network: nn.Module) -> None:
    """Refuse a pruned network whose weights have left their patterns since."""
    for name, conv in convolutions(network):
        pattern = pattern_of(conv)
        if pattern is None or conv.weight.is_meta:
            continue
        found = most_kept(conv.weight, pattern.m)
        if found > pattern.n:
            raise PatternError(
                f"layer {name}: {pattern} needs at most {pattern.n} non-zero weights in a group, "
                f"got {found}; prune it again, or set its pattern to None"
            )


def _giga(count: int) -> str:
    return f"{count / 1e9:.4f} GMACs"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            f"{cell:>{width}}" if title in _RIGHT_ALIGNED else f"{cell:<{width}}"
            for cell, width, title in zip(cells, widths, head, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])
