"""What a layer costs: multiply-accumulates and parameters kept by a pattern (Eq. 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from jaxtyping import Float
from torch import Tensor

from scumble.core.pattern import Pattern, check_group_size

Shape = Sequence[int]


def weights_per_rank(shape: Shape, m: int) -> list[int]:
    """Return how many weights of an ``o i ...`` tensor have rank 0, 1, ... m-1.

    Equal numbers, except where the last group is short and lacks the high ranks.
    """
    check_group_size(m)
    full, rest = divmod(shape[1], m)
    groups = shape[0] * prod(shape[2:])
    return [groups * (full + (rank < rest)) for rank in range(m)]


def kept_weights(shape: Shape, pattern: Pattern | None = None) -> int:
    """Return how many weights of an ``o i ...`` tensor the pattern keeps; all without one."""
    if pattern is None:
        return prod(shape)
    return sum(weights_per_rank(shape, pattern.m)[: pattern.n])


def macs(shape: Shape, positions: int, pattern: Pattern | None = None) -> int:
    """Return the multiply-accumulates of a weight that is applied at ``positions`` places."""
    return kept_weights(shape, pattern) * positions


def macs_per_rank(shape: Shape, positions: int, m: int) -> list[int]:
    """Return the multiply-accumulates that each rank of a layer adds when its gate is open."""
    return [weights * positions for weights in weights_per_rank(shape, m)]


def gated_macs(
    gates: Float[Tensor, "layers m"], macs_per_rank: Float[Tensor, "layers m"]
) -> Float[Tensor, ""]:
    """Return the multiply-accumulates of all layers behind their gates (Eq. 5), differentiably."""
    return (gates * macs_per_rank).sum()


@dataclass(frozen=True)
class LayerCost:
    """One layer of a network at one size of picture."""

    name: str
    kind: str  # conv, conv_transpose, linear; without parameters: dynamic_conv, matmul
    shape: tuple[int, ...]  # of the weight, out x in x ...
    positions: int  # places at which the whole weight is applied, over all calls
    biases: int  # one addition for each, at every position
    pattern: Pattern | None = None

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the kept weights."""
        return macs(self.shape, self.positions, self.pattern)

    @property
    def dense_macs(self) -> int:
        """Return the multiply-accumulates of all weights."""
        return macs(self.shape, self.positions)

    @property
    def parameters(self) -> int:
        """Return the kept weights and the biases."""
        return kept_weights(self.shape, self.pattern) + self.biases if self.has_weights else 0

    @property
    def dense_parameters(self) -> int:
        """Return all weights and the biases."""
        return prod(self.shape) + self.biases if self.has_weights else 0

    @property
    def has_weights(self) -> bool:
        """Return whether the product is with parameters, not with other results."""
        return self.kind not in ("dynamic_conv", "matmul")


@dataclass(frozen=True)
class NetworkCost:
    """A network at one size of picture, counted by two conventions."""

    layers: tuple[LayerCost, ...]
    activations: int  # values that pass through activation modules
    other_parameters: int  # outside of the layers: normalisation, learned slopes

    @property
    def conv_macs(self) -> int:
        """Return the MACs of the kept weights alone (convention ``conv``)."""
        return sum(layer.macs for layer in self.layers)

    @property
    def paper_macs(self) -> int:
        """Return what the paper's tables count: also biases and activations (``paper``)."""
        return self.conv_macs + self.bias_additions + self.activations

    @property
    def paper_macs_scaled(self) -> int:
        """Return ``paper_macs`` with the biases of pruned layers scaled like their weights.

        The paper's rows for RFDN, and for CARN at M = 32, are counted this way; its other rows
        are not (docs/paper-map.md).
        """
        pruned = (layer for layer in self.layers if layer.pattern is not None)
        spared = sum(
            layer.biases * layer.positions * (1 - layer.macs / layer.dense_macs) for layer in pruned
        )
        return self.paper_macs - round(spared)

    @property
    def bias_additions(self) -> int:
        """Return the additions of biases."""
        return sum(layer.biases * layer.positions for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Return the parameters kept, biases included."""
        return sum(layer.parameters for layer in self.layers) + self.other_parameters
