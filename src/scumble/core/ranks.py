"""The rank of every weight inside its group (Eq. 1)."""

from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from scumble.core.pattern import check_group_size
from scumble.errors import PatternError


def rank_in_group(
    weight: Float[Tensor, "o i kh kw"], m: int, pad_groups: bool = False
) -> UInt8[Tensor, "o i kh kw"]:
    """Rank each weight among the ``m`` input channels of its group; 0 is the largest.

    Of equal magnitudes the lower channel comes first. With ``pad_groups`` the last group may be
    short: it is ranked as if zeros filled it up.
    """
    check_groups(weight.shape[1], m, pad_groups)
    ranks = slots_by_magnitude(weight, m).argsort(dim=2).flatten(1, 2)[:, : weight.shape[1]]
    return ranks.to(torch.uint8).contiguous()


def check_groups(channels: int, m: int, pad_groups: bool) -> None:
    """Refuse groups that the input channels do not fill, unless the last one may be short."""
    check_group_size(m)
    if channels % m and not pad_groups:
        raise PatternError(
            f"groups of {m} need input channels divisible by {m}, got {channels}; "
            f"choose another m, leave the layer out, or pad its groups"
        )


def slots_by_magnitude(weight: Float[Tensor, "o i kh kw"], m: int) -> Int64[Tensor, "o g m kh kw"]:
    """Return the places of each group's weights in their group, the largest weight first."""
    return in_groups(weight.abs(), m).argsort(dim=2, descending=True, stable=True)


def in_groups(values: Shaped[Tensor, "o i kh kw"], m: int) -> Shaped[Tensor, "o g m kh kw"]:
    """Split the input channels into groups of ``m``; zeros fill up a short last group."""
    missing = -values.shape[1] % m
    if missing:
        values = F.pad(values, (0, 0, 0, 0, 0, missing))
    return cast(Tensor, values.unflatten(1, (-1, m)))


def in_rank_order(
    values: Shaped[Tensor, "o i kh kw"], ranks: UInt8[Tensor, "o i kh kw"], m: int
) -> Shaped[Tensor, "o g m kh kw"]:
    """Sort what belongs to the weights of each group by their rank, the largest weight first."""
    groups = in_groups(values, m)
    places = in_groups(ranks.to(torch.int64), m)
    short = -ranks.shape[1] % m
    if short:
        # The filling zeros of the last group rank behind all of its weights, in order.
        places[:, -1, m - short :] = torch.arange(m - short, m, device=ranks.device).view(-1, 1, 1)
    return torch.zeros_like(groups).scatter(2, places, groups)
