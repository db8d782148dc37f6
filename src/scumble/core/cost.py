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
    kind: str  # conv, conv_transpose, linear; of two results: dynamic_conv, matmul
    shape: tuple[int, ...]  # of the weight, out x in x ...
    positions: int  # places at which the whole weight is applied, over all calls
    bias_additions: int = 0  # one for each output value of a layer with a bias, over all calls
    biases: int = 0  # parameters; 0 where an earlier layer has counted them
    pattern: Pattern | None = None
    owns_weight: bool = True  # False: no parameters, or counted in an earlier layer

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the kept weights."""
        return macs(self.shape, self.positions, self.pattern)

    @property
    def dense_macs(self) -> int:
        """Return the multiply-accumulates of all weights."""
        return macs(self.shape, self.positions)

    @property
    def scaled_bias_additions(self) -> float:
        """Return the additions of biases, scaled like the weights that the pattern keeps."""
        return self.bias_additions * kept_weights(self.shape, self.pattern) / prod(self.shape)

    @property
    def parameters(self) -> int:
        """Return the kept weights and the biases."""
        return self.owns_weight * kept_weights(self.shape, self.pattern) + self.biases

    @property
    def dense_parameters(self) -> int:
        """Return all weights and the biases."""
        return self.owns_weight * prod(self.shape) + self.biases


@dataclass(frozen=True)
class NetworkCost:
    """A network at one size of picture, counted by two conventions."""

    layers: tuple[LayerCost, ...]
    activations: int  # values that pass through activation modules
    other_parameters: int  # outside of the layers: normalisation, learned slopes
    ran: frozenset[str] = frozenset()  # names of the modules that were called

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
        scaled = sum(layer.scaled_bias_additions for layer in self.layers)
        return self.conv_macs + round(scaled) + self.activations

    @property
    def bias_additions(self) -> int:
        """Return the additions of biases."""
        return sum(layer.bias_additions for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Return the parameters kept, biases included."""
        return sum(layer.parameters for layer in self.layers) + self.other_parameters
