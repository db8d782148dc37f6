"""A masked weight that learns through its mask: the sparse-refined straight-through estimator."""

from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def refined(
    weight: Float[Tensor, "o i kh kw"], keep: Bool[Tensor, "o i kh kw"], decay: float
) -> Float[Tensor, "o i kh kw"]:
    """Return the kept weights, and zeros; every weight gets the gradient as if all were kept.

    The gradient of a weight that is not kept has ``decay`` times the weight added to it, so that
    what is pruned fades, and fewer weights change sides (Zhou et al., 2021, Eq. 9).
    """
    return cast(Tensor, _Refined.apply(weight, keep, decay))  # pyright: ignore[reportUnknownMemberType]


class _Refined(torch.autograd.Function):
    @staticmethod
    def forward(weight: Tensor, keep: Tensor, decay: float) -> Tensor:
        return torch.where(keep, weight, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        weight, keep, ctx.decay = inputs
        ctx.save_for_backward(weight, keep)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        weight, keep = cast(tuple[Tensor, Tensor], ctx.saved_tensors)
        return grads[0] + ctx.decay * torch.where(keep, 0.0, weight), None, None
