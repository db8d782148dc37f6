"""Scores of rank boundaries, the priorities they give, and the gates these open (Eq. 3, 4)."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

# A rank is kept while its priority lies above this (tau in the paper).
THRESHOLD = 0.5

# The authors' code lets a score rise to 1.03; the paper says 1 (docs/paper-map.md).
SCORE_CEILING = 1.03


def priorities(
    scores: Float[Tensor, "*layers boundaries"],
    ceiling: float = SCORE_CEILING,
    ordered: bool = True,
) -> Float[Tensor, "*layers m"]:
    """Return the priority of every rank: the product of the scores before it (Eq. 4).

    Not ``ordered``, each rank behind the first has a score of its own (the ablation of Table 3).
    """
    in_range = scores.clamp(0, ceiling)
    if not ordered:
        return torch.cat([torch.ones_like(scores[..., :1]), in_range], dim=-1)
    products = cast(Tensor, _LeadingProducts.apply(in_range))  # pyright: ignore[reportUnknownMemberType]
    return torch.cat([torch.ones_like(scores[..., :1]), products], dim=-1)


def gates(
    priorities: Float[Tensor, "*layers m"], ordered: bool = True
) -> Float[Tensor, "*layers m"]:
    """Return one gate per rank. Forward: 0 or 1. Backward: the gradient of the priority (Eq. 3).

    A gate never opens behind a closed one, even where scores above 1 lift a lower rank's
    priority back over the threshold; not ``ordered``, every rank stands for itself.
    """
    return cast(Tensor, _StraightThrough.apply(priorities, ordered))  # pyright: ignore[reportUnknownMemberType]


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(priorities: Tensor, ordered: bool) -> Tensor:
        hard = (priorities > THRESHOLD).to(priorities.dtype)
        return hard.cumprod(-1) if ordered else hard

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _LeadingProducts(torch.autograd.Function):
    """``cumprod`` over the last dimension, whose gradient is exact at zeros.

    torch's own looks for zeros on the host, which stalls a GPU and breaks graph capture.
    """

    @staticmethod
    def forward(factors: Tensor) -> Tensor:
        return factors.cumprod(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """Product i depends on factor n <= i through (factors before n) x (factors n+1 to i)."""
        (factors,) = cast(tuple[Tensor], ctx.saved_tensors)
        (grad,) = grads
        before = torch.cat([torch.ones_like(factors[..., :1]), factors[..., :-1].cumprod(-1)], -1)
        here = torch.ones(factors.shape[-1], factors.shape[-1], device=factors.device).triu()
        later = here.triu(1).bool()
        between = torch.where(later, factors.unsqueeze(-2), 1.0).cumprod(-1) * here
        return before * (between * grad.unsqueeze(-2)).sum(-1)
