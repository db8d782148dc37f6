"""Networks as files: tensors, packed where they are pruned, and JSON that explains them."""

import copy
import pickle
import warnings
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import scumble.zoo
from scumble.checkpoint_info import CheckpointInfo
from scumble.core.packing import Packed, pack, unpack
from scumble.core.pattern import Pattern
from scumble.errors import CheckpointError, NetworkError, PatternError
from scumble.methods.phases import record_of
from scumble.models import MODELS, NetworkSpec, build, spec_of
from scumble.nn.surgery import mark, patterns
from scumble.sealed import read_bytes, read_sealed, write_sealed

# A pruned weight KEY is stored as these two tensors instead.
VALUES, SLOTS = ".values", ".slots"

# Where training scripts of others keep the state dict inside their file.
_NESTS = ("params_ema", "params", "state_dict", "model")


def save(
    network: nn.Module,
    path: str | Path,
    *,
    dtype: torch.dtype | None = None,
    recipe: Mapping[str, Any] | None = None,
    data: str | None = None,
    licence: str | None = None,
    results: Mapping[str, Any] | None = None,
) -> None:
    """Write a network; the file of a pruned one is as small as its patterns.

    Args:
        network: a plain network, dense or from ``finalize``.
        path: the file to write; it appears whole or not at all.
        dtype: how to store floating-point weights, such as ``torch.float16``; as they are if None.
        recipe: the resolved recipe of the run that made the network.
        data: what it was trained on.
        licence: under which it may be used.
        results: what it scored, by protocol and data set.
    """
    if hasattr(network, "pruning"):
        raise NetworkError(
            "saving needs a plain network, got one that is still being pruned; finalize it first"
        )
    spec, found = spec_of(network), patterns(network)
    state = network.state_dict()
    if dtype is not None:
        state = {key: t.to(dtype) if t.is_floating_point() else t for key, t in state.items()}
    info = CheckpointInfo(
        class_name=type(network).__name__,
        network=spec,
        patterns=found,
        pruned_by=record_of(network),
        recipe=recipe,
        data=data,
        licence=licence,
        results=results,
    )
    write_sealed(Path(path), _packed(state, found), info.to_json())


def load(path: str | Path, network: nn.Module | str | None = None) -> nn.Module:
    """Return the network in a file.

    Args:
        path: a network of the zoo, such as ``"carn-x4"``; our ``.safetensors``; or, with
            ``network``, any safetensors or ``.pth`` state dict.
        network: the network that the file belongs to, by name or as a module, which is copied;
            our own networks are named in the file.
    """
    path = _located(path)
    stored, info = _read(path)
    template = _template(path, info, network)
    expected = {key: tuple(tensor.shape) for key, tensor in template.state_dict().items()}
    found = info.patterns if info else {}
    state = _unpacked(path, stored, found, expected)
    _compare(path, state, expected, type(template).__name__)
    filled = copy.deepcopy(network) if isinstance(network, nn.Module) else _spec(template).build()
    filled.load_state_dict(state)
    for name, pattern in found.items():
        mark(filled.get_submodule(name), pattern)
    if info and info.pruned_by:
        filled.pruned_by = info.pruned_by  # pyright: ignore[reportArgumentType]
    return filled


def read_info(path: str | Path) -> CheckpointInfo:
    """Return what a file of ours says about itself."""
    _, info = _read(_located(path))
    if info is None:
        raise CheckpointError(f"{path} was not written by scumble and says nothing of itself")
    return info


def _located(path: str | Path) -> Path:
    """Return the file of a network of the zoo, or the path as it is."""
    return scumble.zoo.find(str(path)) if str(path) in scumble.zoo.names() else Path(path)


def _packed(state: Mapping[str, Tensor], found: Mapping[str, Pattern]) -> dict[str, Tensor]:
    """Return a state dict whose pruned weights are packed."""
    packed = dict(state)
    for name, pattern in found.items():
        key = f"{name}.weight"
        try:
            parts = pack(packed.pop(key), pattern)
        except PatternError as error:
            raise PatternError(f"layer {name}: {error}; prune it again before saving") from error
        packed |= {key + VALUES: parts.values, key + SLOTS: parts.slots}
    return packed


def _unpacked(
    path: Path,
    stored: Mapping[str, Tensor],
    found: Mapping[str, Pattern],
    expected: Mapping[str, tuple[int, ...]],
) -> dict[str, Tensor]:
    """Return the state dict that was packed, after checking what was said about it."""
    state = dict(stored)
    for name, pattern in found.items():
        key = f"{name}.weight"
        values, slots = state.pop(key + VALUES, None), state.pop(key + SLOTS, None)
        if values is None or slots is None:
            raise CheckpointError(f"{path}: layer {name} is {pattern}, but is not stored packed")
        shape = expected.get(key)
        if shape is None or len(shape) != 4:
            raise CheckpointError(f"{path}: layer {name} is {pattern}, but no such convolution")
        if (values.shape[0], *values.shape[3:]) != (shape[0], *shape[2:]):
            raise CheckpointError(
                f"{path}: layer {name} needs {shape[0]} outputs and a {shape[2]}x{shape[3]} "
                f"kernel, got values of shape {tuple(values.shape)}"
            )
        try:
            state[key] = unpack(Packed(values, slots, shape[1], pattern))
        except PatternError as error:
            raise CheckpointError(f"{path}: layer {name}: {error}") from error
    return state


def _read(path: Path) -> tuple[Mapping[str, Tensor], CheckpointInfo | None]:
    if path.suffix in (".pth", ".pt", ".ckpt"):
        return _read_torch(path), None
    if not path.exists() and path.name.partition("-x")[0] in MODELS and path.parent == Path():
        raise CheckpointError(
            f"there are no trained weights named {path}; "
            f"scumble.build('{path}') makes the untrained network"
        )
    tensors, info = read_sealed(path)
    try:
        return tensors, None if info is None else CheckpointInfo.from_json(info)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    """Return the state dict in a file of torch's, which is a pickle: no code in it is run."""
    file = BytesIO(read_bytes(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual pickles; what matters is refused below
            content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds more than tensors, such as code to run; nothing of it was executed; "
            f"save its state_dict instead"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{path} is not a whole file of torch's: {reason}") from error
    nest = next((name for name in _NESTS if isinstance(content, dict) and name in content), None)
    state = content if nest is None else content[nest]
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise CheckpointError(f"{path} needs to hold a state dict of tensors, got something else")
    return state


def _template(
    path: Path, info: CheckpointInfo | None, network: nn.Module | str | None
) -> nn.Module:
    """Return the network that the file belongs to, without memory if it is one of ours."""
    if isinstance(network, nn.Module):
        return network
    if network is None and (info is None or info.network is None):
        whose = "a state dict" if info is None else f"a {info.class_name}, which is not ours"
        raise CheckpointError(f"{path} holds {whose}; say which network it belongs to (network=)")
    with torch.device("meta"):
        if network is not None:
            return build(network)
        assert info is not None
        assert info.network is not None
        return info.network.build()


def _spec(template: nn.Module) -> NetworkSpec:
    spec = spec_of(template)
    assert spec is not None
    return spec


def _compare(
    path: Path, state: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], wanted: str
) -> None:
    """Refuse a state dict of another network, and say how it differs."""
    shapes = {key: tuple(tensor.shape) for key, tensor in state.items()}
    differences = {
        "missing": [key for key in expected if key not in shapes],
        "unexpected": [key for key in sorted(shapes) if key not in expected],
        "of another shape": [
            f"{key} {shapes[key]} instead of {expected[key]}"
            for key in expected
            if key in shapes and shapes[key] != expected[key]
        ],
    }
    told = [f"{_some(keys)} {kind}" for kind, keys in differences.items() if keys]
    if told:
        raise CheckpointError(f"{path} does not hold this {wanted}: {'; '.join(told)}")


def _some(keys: list[str], most: int = 3) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(keys[:most]) + more
