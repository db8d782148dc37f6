"""A network with fewer filters, and the same one with zeros in their place."""

import copy

import torch
from torch import nn

from scumble.core.ties import FIXED
from scumble.nn.channels import follow_channels
from scumble.nn.filters import Filters
from scumble.nn.narrowing import narrow_


def narrow_and_masked(
    network: nn.Module, size: tuple[int, int], share: float, readers: bool = True
) -> tuple[nn.Module, nn.Module, Filters]:
    """Return both, each class of filters cut to a share.

    In the masked one the filters that went are zero, with what is added to them; with ``readers``
    the weights that read their channels are zero, too, as where an activation makes no zero of one.
    """
    filters = Filters(follow_channels(network, size))
    counts = [max(1, int(share * len(units))) for units in filters.classes]
    places = filters.places(counts)
    masked = copy.deepcopy(network)
    narrow = copy.deepcopy(network)
    with torch.no_grad():
        for one, other in zip(_tensors(network), _tensors(masked), strict=True):
            for dim, kept in places.get(one, {}).items():
                writes = dim == filters.flow.filters.get(one, dim if one.dim() == 1 else -1)
                if writes or readers:
                    gone = torch.ones(one.shape[dim], dtype=torch.bool)
                    gone[kept] = False
                    other.transpose(0, dim)[gone] = 0
    of_copy = dict(zip(_tensors(network), _tensors(narrow), strict=True))
    narrow_(narrow, {of_copy[tensor]: dims for tensor, dims in places.items()})
    return narrow, masked, filters


def removable(filters: Filters, weight: torch.Tensor) -> bool:
    """Return whether some filter of a weight could go."""
    channels = filters.flow.held[weight][filters.flow.filters[weight]]
    return any(filters.flow.ties.of(channel) != FIXED for channel in channels)


def _tensors(network: nn.Module) -> list[torch.Tensor]:
    return [*network.parameters(), *network.buffers()]
