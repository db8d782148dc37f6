"""What the operations of torch do to the channels of tensors."""

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from scumble.nn.channels import Follower

aten = torch.ops.aten

Rule = Callable[["Follower", Sequence[Any], Any], None]


def rule_of(operation: Any) -> Rule:
    """Return what an operation of torch's does to channels."""
    known = _RULES.get(operation.overloadpacket)
    return known or (_pointwise if torch.Tag.pointwise in operation.tags else _unknown)


def _unknown(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Whatever goes in has to stay as it is, unless somebody only asked about it."""
    if any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
        notes.fix(*args)


def _pointwise(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Channels that meet are tied."""
    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
    found = [(tensor, notes.along(tensor)) for tensor in tensors]
    # Counted from the last, as dimensions are when shapes are broadcast.
    ends = {a.dim - t.dim() for t, a in found if a is not None and len(a.channels) > 1}
    if len(ends) != 1:
        ends = {a.dim - t.dim() for t, a in found if a is not None}
    end = next(iter(ends), 0)
    strangers = [t for t, a in found if a is None and end and t.dim() >= -end and t.shape[end] > 1]
    if len(ends) != 1 or strangers:
        return notes.fix(*tensors)
    met = [a.channels for _, a in found if a is not None]
    channels = max(met, key=len)
    for others in met:
        if len(others) == len(channels):
            notes.ties.tie(others, channels)
    return notes.put(result, result.dim() + end, channels)


def _same(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Every channel stays what it is, in its place; parts of the channels need the whole."""
    along = notes.along(args[0])
    for tensor in tree_leaves(result):
        if along is not None and tensor.shape[along.dim : along.dim + 1] == (len(along.channels),):
            notes.put(tensor, along.dim, along.channels)
        else:
            notes.fix(args[0])


def _spatial(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Height and width change, channels do not."""
    along = notes.along(args[0])
    if along is not None and along.dim < args[0].dim() - 2:
        _same(notes, args, result)
    else:
        notes.fix(*args)


def _normalised(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Every channel is scaled and shifted by itself."""
    along = notes.along(args[0])
    if along is None or along.dim != 1:
        return notes.fix(*args)
    for own in args[1:5]:
        if own is not None:
            notes.read(own, 0, along.channels)
    return notes.put(result[0], along.dim, along.channels)


def _convolution(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    image, weight, bias, *_, transposed, _, groups = args
    if weight not in notes.holders:
        return notes.fix(*args)
    grid = image if transposed else result
    positions = grid.shape[0] * prod(grid.shape[2:])
    if groups == 1:
        outputs, inputs = (1, 0) if transposed else (0, 1)
        notes.read(image, 1, notes.held(weight, inputs))
        made = notes.multiply(weight, outputs, inputs, positions)
    elif groups == weight.shape[0] == result.shape[1] and not transposed:
        notes.read(image, 1, notes.held(weight, 0))
        made = notes.multiply(weight, 0, None, positions)
    else:
        return notes.fix(*args)
    notes.add_bias(bias, made, result.numel() // len(made))
    return notes.put(result, 1, made)


def _linear(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """A product with the transposed weight of a linear layer, perhaps behind its bias."""
    bias, image, turned = (None, *args[:2]) if len(args) < 3 else args[:3]
    weight = notes.turned.get(turned)
    if weight is None:
        return notes.fix(*args)
    notes.read(image, 1, notes.held(weight, 1))
    made = notes.multiply(weight, 0, 1, image.shape[0])
    notes.add_bias(bias, made, image.shape[0])
    return notes.put(result, 1, made)


def _transpose(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    if args[0] in notes.holders and args[0].dim() == 2:
        notes.turned[result] = args[0]
    else:
        _permute(notes, [args[0], [1, 0][: args[0].dim()]], result)


def _permute(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    along = notes.along(args[0])
    if along is None:
        return notes.fix(args[0])
    order = [dim % args[0].dim() for dim in args[1]]
    return notes.put(result, order.index(along.dim), along.channels)


def _swap(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    order = list(range(args[0].dim()))
    order[args[1]], order[args[2]] = order[args[2]], order[args[1]]
    _permute(notes, [args[0], order], result)


def _reshape(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Channels lie along the dimension of the same length behind as many values as before."""
    along = notes.along(args[0])
    if along is None or len(along.channels) == 1:
        return notes.fix(args[0])
    before = prod(args[0].shape[: along.dim])
    for dim, length in enumerate(result.shape):
        if length == len(along.channels) and prod(result.shape[:dim]) == before:
            return notes.put(result, dim, along.channels)
    return notes.fix(args[0])


def _expand(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    along = notes.along(args[0])
    end = 0 if along is None else along.dim - args[0].dim()
    if along is None or result.shape[end] != len(along.channels):
        return notes.fix(args[0])
    return notes.put(result, result.dim() + end, along.channels)


def _reduce(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Sums and means of each channel by itself; over channels, how many there are matters."""
    along = notes.along(args[0])
    rank = args[0].dim()
    dims = {dim % rank for dim in (args[1] if len(args) > 1 and args[1] else range(rank))}
    if along is None or along.dim in dims:
        return notes.fix(args[0])
    gone = 0 if result.dim() == rank else sum(dim < along.dim for dim in dims)
    return notes.put(result, along.dim - gone, along.channels)


def _join(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Concatenated channels stand one behind the other; other dimensions tie what they join."""
    tensors, dim = args[0], (args[1] if len(args) > 1 else 0) % result.dim()
    found = [notes.along(tensor) for tensor in tensors]
    if any(along is None for along in found) or len({a.dim for a in found if a is not None}) != 1:
        return notes.fix(tensors)
    places = [along for along in found if along is not None]
    if places[0].dim == dim:
        return notes.put(result, dim, tuple(c for along in places for c in along.channels))
    for along in places[1:]:
        notes.ties.tie(along.channels, places[0].channels)
    return notes.put(result, places[0].dim, places[0].channels)


def _shuffle(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    """Each channel of the larger picture is made of as many as a pixel of the smaller becomes."""
    along, tile = notes.along(args[0]), args[1] ** 2
    if along is None or along.dim != args[0].dim() - 3:
        return notes.fix(args[0])
    for first in range(0, len(along.channels), tile):
        together = along.channels[first : first + tile]
        notes.ties.tie(together, together[:1] * tile)
    return notes.put(result, along.dim, along.channels[::tile])


def _unshuffle(notes: "Follower", args: Sequence[Any], result: Any) -> None:
    along, tile = notes.along(args[0]), args[1] ** 2
    if along is None or along.dim != args[0].dim() - 3:
        return notes.fix(args[0])
    return notes.put(result, along.dim, tuple(c for c in along.channels for _ in range(tile)))


_GROUPS: dict[Rule, list[Any]] = {
    _convolution: [aten.convolution],
    _linear: [aten.mm, aten.addmm],
    _pointwise: [aten._prelu_kernel, aten.hardswish],
    _same: [
        *(aten.detach, aten.alias, aten._to_copy, aten.native_dropout),
        *(aten.slice, aten.split, aten.split_with_sizes),
    ],
    _spatial: [
        *(aten.max_pool2d_with_indices, aten.avg_pool2d, aten._adaptive_avg_pool2d),
        *(aten.upsample_nearest2d, aten.upsample_bilinear2d, aten.upsample_bicubic2d),
        *(aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa),
        *(aten.reflection_pad2d, aten.replication_pad2d, aten.constant_pad_nd),
    ],
    _normalised: [aten.native_batch_norm, aten._native_batch_norm_legit_no_training],
    _transpose: [aten.t],
    _permute: [aten.permute],
    _swap: [aten.transpose],
    _reshape: [
        *(aten.view, aten._unsafe_view, aten._reshape_alias),
        *(aten.unsqueeze, aten.squeeze),
    ],
    _expand: [aten.expand],
    _reduce: [aten.mean, aten.sum, aten.amax, aten.amin],
    _join: [aten.cat],
    _shuffle: [aten.pixel_shuffle],
    _unshuffle: [aten.pixel_unshuffle],
}
_RULES: dict[Any, Rule] = {name: rule for rule, names in _GROUPS.items() for name in names}
