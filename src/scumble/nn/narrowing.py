"""Making the tensors of a network smaller, and telling its layers."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from scumble.errors import NetworkError

# Of a tensor: along which dimensions, the places that stay.
Places = Mapping[int, Tensor]


@torch.no_grad()
def narrow_(network: nn.Module, places: Mapping[Tensor, Places]) -> None:
    """Keep, in place, some slices of parameters and buffers; remember which were made smaller."""
    known = set(narrowed(network))
    fresh: dict[Tensor, Tensor] = {}  # a tensor that two layers share is made smaller once
    for prefix, module in network.named_modules():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is None or tensor not in places:
                continue
            fresh.setdefault(tensor, _kept(tensor, places[tensor]))
            setattr(module, name, fresh[tensor])
            if fresh[tensor].shape != tensor.shape:
                known.add(f"{prefix}.{name}".removeprefix("."))
        _tell_(module)
    network.narrowed = tuple(sorted(known))  # pyright: ignore[reportArgumentType]


def narrowed(network: nn.Module) -> tuple[str, ...]:
    """Return the names of the tensors that were made smaller."""
    names: Any = getattr(network, "narrowed", ())
    return names if isinstance(names, tuple) else ()


def narrow_shapes(network: nn.Module) -> dict[str, list[int]]:
    """Return the shape of every tensor in the state that was made smaller, by key."""
    state = network.state_dict()
    return {name: list(state[name].shape) for name in narrowed(network) if name in state}


def narrow_to_(network: nn.Module, shapes: Mapping[str, list[int]]) -> None:
    """Make the tensors of those keys as small as the shapes say, whatever they hold."""
    state = network.state_dict(keep_vars=True)
    places: dict[Tensor, Places] = {}
    for key, shape in shapes.items():
        if key not in state:
            raise NetworkError(f"{key} needs to be {tuple(shape)}, got no tensor of that name")
        own = tuple(state[key].shape)
        _check(key, own, tuple(shape))
        places[state[key]] = {
            dim: torch.arange(length, device=state[key].device) for dim, length in enumerate(shape)
        }
    if places:
        narrow_(network, places)


def _check(key: str, own: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Refuse shapes that are not this one with fewer channels."""
    if len(shape) != len(own) or shape[2:] != own[2:]:
        raise NetworkError(f"{key} needs to be {shape}, and {own} does not become that")
    if not all(0 < length <= most for length, most in zip(shape, own, strict=True)):
        raise NetworkError(f"{key} needs to be at most {own}, got {shape}")


def _kept(tensor: Tensor, places: Places) -> Tensor:
    """Return the slices of a tensor that stay; a parameter stays one."""
    smaller = tensor.detach()
    for dim, index in places.items():
        smaller = smaller.index_select(dim, index.to(tensor.device))
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(smaller, requires_grad=tensor.requires_grad)
    return smaller


def _tell_(module: nn.Module) -> None:
    """Bring what a layer says of its width in line with its tensors."""
    match module:
        case nn.Conv2d() if module.groups == 1:
            module.out_channels, module.in_channels = module.weight.shape[:2]
        case nn.Conv2d() if module.groups == module.in_channels == module.out_channels:
            width = module.weight.shape[0]
            module.out_channels = module.in_channels = module.groups = width
        case nn.ConvTranspose2d() if module.groups == 1:
            module.in_channels, module.out_channels = module.weight.shape[:2]
        case nn.Linear():
            module.out_features, module.in_features = module.weight.shape
        case _NormBase() if module.weight is not None:
            module.num_features = module.weight.shape[0]
        case nn.PReLU():
            module.num_parameters = module.weight.shape[0]
        case _:
            pass
