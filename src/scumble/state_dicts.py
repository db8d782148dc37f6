"""State dicts: what they may hold, how their pruned weights are packed, and how they differ."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from scumble.core.packing import FLOATS, Packed, pack, unpack
from scumble.core.pattern import Pattern
from scumble.errors import CheckpointError, NetworkError, PatternError

# A pruned weight KEY is stored as these two tensors instead.
VALUES, SLOTS = ".values", ".slots"


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a network, after checking that it holds nothing but tensors."""
    state = network.state_dict()
    for key, value in state.items():
        if not isinstance(value, Tensor):
            raise NetworkError(
                f"a checkpoint holds tensors only, got {key} of this {type(network).__name__}, "
                f"which is a {type(value).__name__}; register it as a buffer"
            )
    return state


def check_plain(state: Mapping[str, Tensor]) -> None:
    """Refuse tensors that cannot be read from a file, or written to one."""
    for key, tensor in state.items():
        odd = oddity(tensor)
        if odd:
            raise NetworkError(f"a checkpoint needs plain tensors, got {odd} at {key}")


def oddity(value: object) -> str | None:
    """Return what keeps a value out of a checkpoint; None for an ordinary tensor."""
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    oddities = {
        "a tensor without a shape": is_lazy(value),
        "a tensor without memory": value.is_meta,
        "a sparse tensor": value.layout is not torch.strided,
        "a nested tensor": value.is_nested,
        "a quantized tensor": value.is_quantized,
        "a tensor of complex numbers": value.is_complex(),
    }
    return next((name for name, found in oddities.items() if found), None)


def not_finite(state: Mapping[str, Tensor]) -> str | None:
    """Return the first key whose tensor holds a number that is infinite or none at all."""
    for key, tensor in state.items():
        # In double, because 8-bit floats know no isfinite.
        if tensor.is_floating_point() and not bool(tensor.double().isfinite().all()):
            return key
    return None


def tied(state: Mapping[str, Tensor]) -> list[list[str]]:
    """Return the groups of keys that stand for one and the same tensor."""
    groups: dict[tuple[int, torch.Size], list[str]] = {}
    for key, tensor in state.items():
        if tensor.numel():
            groups.setdefault((tensor.data_ptr(), tensor.shape), []).append(key)
    return [keys for keys in groups.values() if len(keys) > 1]


def packed(
    network: nn.Module, state: Mapping[str, Tensor], found: Mapping[str, Pattern]
) -> dict[str, Tensor]:
    """Return a state dict whose pruned weights are packed."""
    whole = dict(state)
    for name, pattern in found.items():
        key = _weight(name)
        try:
            check_layer(network, name, pattern)
            parts = pack(whole.pop(key), pattern)
        except PatternError as error:
            raise PatternError(f"layer {name}: {error}; prune the network again") from error
        whole |= {key + VALUES: parts.values, key + SLOTS: parts.slots}
    return whole


def unpacked(
    stored: Mapping[str, Tensor], found: Mapping[str, Pattern], template: nn.Module
) -> dict[str, Tensor]:
    """Return the state dict that was packed, after checking what was said about it."""
    state = dict(stored)
    for name, pattern in found.items():
        key = _weight(name)
        values, slots = state.pop(key + VALUES, None), state.pop(key + SLOTS, None)
        if values is None or slots is None:
            raise CheckpointError(f"layer {name} is {pattern}, but is not stored packed")
        try:
            out, channels, *kernel = check_layer(template, name, pattern).weight.shape
            if (values.shape[:1], values.shape[3:]) != ((out,), tuple(kernel)):
                raise PatternError(
                    f"the network has {out} outputs and a {kernel[0]}x{kernel[1]} kernel, "
                    f"got values of shape {tuple(values.shape)}"
                )
            state[key] = unpack(Packed(values, slots, channels, pattern))
        except PatternError as error:
            raise CheckpointError(f"layer {name}: {error}") from error
    return state


def check_layer(network: nn.Module, name: str, pattern: Pattern) -> nn.Conv2d:
    """Return the layer of that name, which has to be one that can follow a pattern."""
    try:
        layer = network.get_submodule(name)
    except AttributeError as error:
        raise PatternError(f"{pattern} needs a convolution, got no layer of that name") from error
    if type(layer) is not nn.Conv2d or layer.groups != 1:
        raise PatternError(
            f"{pattern} needs an nn.Conv2d of one group, got a {type(layer).__name__}"
            + (f" of {layer.groups} groups" if isinstance(layer, nn.Conv2d) else "")
        )
    return layer


def differences(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Return how a state dict differs from that of a network; nothing if it fits."""
    both = [key for key in expected if key in state]
    kinds = {
        "missing": [key for key in expected if key not in state],
        "unexpected": [key for key in sorted(state) if key not in expected],
        "of another shape": [
            f"{key} {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
            for key in both
            if state[key].shape != expected[key].shape
        ],
        "of another type": [
            f"{key} {dtype_name(state[key].dtype)} instead of {dtype_name(expected[key].dtype)}"
            for key in both
            if not _fits(state[key].dtype, expected[key].dtype)
        ],
    }
    return "; ".join(f"{_some(keys)} {kind}" for kind, keys in kinds.items() if keys)


def retype_(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a network the types of its state, so that a double one comes back double."""
    own = network.state_dict(keep_vars=True)
    types = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(types) == 1 and any(own[key].dtype != state[key].dtype for key in own):
        network.to(types.pop())  # and what no file holds, such as the mean colour
    for key, tensor in own.items():
        tensor.data = tensor.data.to(state[key].dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """Return, say, ``"float16"``."""
    return str(dtype).removeprefix("torch.")


def _fits(dtype: torch.dtype, wanted: torch.dtype) -> bool:
    """Return whether nothing but rounding can be lost when one type becomes the other."""
    return dtype == wanted or (dtype in FLOATS and wanted in FLOATS)


def _weight(layer: str) -> str:
    """Return the key of a layer's weight; a bare convolution has no name."""
    return f"{layer}.weight".removeprefix(".")


def _some(keys: list[str], most: int = 3) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(keys[:most]) + more
