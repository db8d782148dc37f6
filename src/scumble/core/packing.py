"""A pruned weight as the values it keeps and their slots."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from scumble.core.pattern import Pattern
from scumble.core.ranks import check_groups, in_groups, slots_by_magnitude
from scumble.errors import PatternError

# The types that weights may have; others, such as 8-bit floats, lack the operations we need.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Packed:
    """The kept weights of a layer: for each group N values and the slots they stand in."""

    values: Float[Tensor, "o g n kh kw"]
    slots: UInt8[Tensor, "o g n kh kw"]  # place in the group, rising
    channels: int  # input channels; the last group may be short
    pattern: Pattern


def largest(
    weight: Float[Tensor, "o i kh kw"], pattern: Pattern, pad_groups: bool = False
) -> Bool[Tensor, "o i kh kw"]:
    """Return a mask of the N largest weights of every group."""
    check_groups(weight.shape[1], pattern.m, pad_groups)
    # One sort instead of the two that ranks take: some methods choose anew at every step.
    slots = slots_by_magnitude(weight, pattern.m)
    keep = torch.zeros_like(slots, dtype=torch.bool).scatter_(2, slots[:, :, : pattern.n], True)
    return keep.flatten(1, 2)[:, : weight.shape[1]].contiguous()


def most_kept(weight: Float[Tensor, "o i kh kw"], m: int) -> int:
    """Return the largest number of non-zero weights in any group of ``m``."""
    return int(in_groups((weight != 0).int(), m).sum(2).max())


def pack(weight: Float[Tensor, "o i kh kw"], pattern: Pattern) -> Packed:
    """Pack a weight that already follows ``pattern``; a group may hold fewer than N non-zeros."""
    found = most_kept(weight, pattern.m)
    if found > pattern.n:
        raise PatternError(
            f"packing {pattern} needs at most {pattern.n} non-zero weights in a group, got {found}"
        )
    slots = slots_by_magnitude(weight, pattern.m)[:, :, : pattern.n].sort(dim=2).values
    values = in_groups(weight, pattern.m).gather(2, slots)
    return Packed(values.contiguous(), slots.to(torch.uint8), weight.shape[1], pattern)


def unpack(packed: Packed) -> Float[Tensor, "o i kh kw"]:
    """Return the weight that was packed, after checking that its slots make sense."""
    check(packed)
    out, groups, _, height, width = packed.values.shape
    dense = packed.values.new_zeros(out, groups, packed.pattern.m, height, width)
    dense.scatter_(2, packed.slots.long(), packed.values)
    return dense.flatten(1, 2)[:, : packed.channels].contiguous()


def check(packed: Packed) -> None:
    """Refuse values and slots that no weight packs into."""
    pattern, values, slots = packed.pattern, packed.values, packed.slots
    groups = -(-packed.channels // pattern.m)
    if values.dim() != 5 or values.shape[1:3] != (groups, pattern.n):
        raise PatternError(
            f"{packed.channels} channels packed {pattern} need values of shape "
            f"(out, {groups}, {pattern.n}, height, width), got {tuple(values.shape)}"
        )
    if values.dtype not in FLOATS:
        raise PatternError(
            f"values need to be floating-point numbers of 16, 32 or 64 bits, "
            f"got {str(values.dtype).removeprefix('torch.')}"
        )
    if slots.dtype != torch.uint8 or slots.shape != values.shape:
        raise PatternError(
            f"slots need to be bytes of shape {tuple(values.shape)}, "
            f"got {str(slots.dtype).removeprefix('torch.')} of shape {tuple(slots.shape)}"
        )
    if slots.numel() and int(slots.max()) >= pattern.m:
        raise PatternError(
            f"slots of {pattern} need to be below {pattern.m}, got {int(slots.max())}"
        )
    if bool((slots[:, :, 1:] <= slots[:, :, :-1]).any()):
        raise PatternError("slots need to rise inside a group, got one twice or out of order")
    rest = packed.channels % pattern.m
    if rest and bool(values[:, -1][slots[:, -1] >= rest].any()):
        raise PatternError(f"the last group has {rest} channels, got a weight beyond them")
