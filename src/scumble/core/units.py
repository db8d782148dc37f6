"""A weight as the sum of 1:M sparse units (Eq. 1), and the gated sum of them (Eq. 2)."""

from typing import Any, cast

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from scumble.core.ranks import in_rank_order, rank_in_group


def decompose(weight: Float[Tensor, "o i kh kw"], m: int) -> Float[Tensor, "m o i kh kw"]:
    """Return the ``m`` units of a weight; unit r holds the weights of rank r and zeros.

    This is Eq. 1 as written, and as large: the gated sum below never builds the units.
    """
    ranks = rank_in_group(weight, m)
    return torch.stack([weight * (ranks == rank) for rank in range(m)])


def gated_sum(
    weight: Float[Tensor, "o i kh kw"],
    gates: Float[Tensor, " m"],
    ranks: UInt8[Tensor, "o i kh kw"],
) -> Float[Tensor, "o i kh kw"]:
    """Return the sum of the weight's units, each times its gate (Eq. 2)."""
    gates = gates.to(weight.dtype)
    return cast(Tensor, _GatedSum.apply(weight, gates, ranks))  # pyright: ignore[reportUnknownMemberType]


class _GatedSum(torch.autograd.Function):
    """``weight * gates[ranks]``, which remembers nothing but its three inputs.

    Plain autograd would keep a mask of weight size and accumulate the gradient of the gates with
    atomic additions in random order; sorting by rank first makes it a sum in fixed order.
    """

    @staticmethod
    def forward(weight: Tensor, gates: Tensor, ranks: Tensor) -> Tensor:
        return weight * gates[ranks.int()]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, gates, ranks = cast(tuple[Tensor, Tensor, Tensor], ctx.saved_tensors)
        (grad,) = grads
        of_weight = of_gates = None
        if ctx.needs_input_grad[0]:
            of_weight = grad * gates[ranks.int()]
        if ctx.needs_input_grad[1]:
            of_gates = in_rank_order(grad * weight, ranks, gates.shape[0]).sum((0, 1, 3, 4))
        return of_weight, of_gates, None
