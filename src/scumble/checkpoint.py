"""Networks as files: tensors, packed where they are pruned, and JSON that explains them."""

import copy
import json
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import scumble.zoo
from scumble.checkpoint_info import CheckpointInfo, HalfType
from scumble.core.packing import FLOATS
from scumble.errors import CheckpointError, NetworkError, ScumbleError
from scumble.foreign import ENDINGS, read_torch
from scumble.methods.base import Pruning
from scumble.methods.phases import record_of
from scumble.models import NetworkSpec, build, spec_of
from scumble.nn.narrowing import narrow_shapes, narrow_to_
from scumble.nn.surgery import mark, patterns
from scumble.nn.tracing import trace
from scumble.sealed import read_sealed, refusal, write_sealed
from scumble.state_dicts import (
    check_plain,
    differences,
    dtype_name,
    not_finite,
    packed,
    retype_,
    state_of,
    tied,
    unpacked,
)

ENDING = ".safetensors"

_TRAINING_STATE = "scumble training state"  # how the kind of a state begins (training.state)

# A picture on which every network of ours runs.
SMALL = (64, 64)

_HALVES: dict[torch.dtype, HalfType] = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


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

    A network of ours whose layers were changed is written as a foreign one: loading it needs
    the network itself.

    Args:
        network: a plain network, dense or from ``finalize``.
        path: the ``.safetensors`` file to write; it appears whole or not at all.
        dtype: how to store floating-point weights, such as ``torch.float16``; as they are if None.
            Weights rounded to 16 bits load as float32; all others load in the type stored.
        recipe: the resolved recipe of the run that made the network.
        data: what it was trained on.
        licence: under which it may be used.
        results: what it scored, by protocol and data set.
    """
    path = Path(path)
    if path.suffix != ENDING:
        raise CheckpointError(f"{path} needs to end in {ENDING}; name the file so")
    if any(isinstance(module, Pruning) for module in network.modules()):
        raise NetworkError(
            "saving needs a plain network, got one that is still being pruned; finalize it first"
        )
    given = {"recipe": recipe, "data": data, "licence": licence, "results": results}
    plain = {name: _plain(name, value) for name, value in given.items()}
    found, state = patterns(network), state_of(network)
    narrowed = narrow_shapes(network)
    stored = _stored(state, dtype)
    info = CheckpointInfo(
        class_name=type(network).__name__,
        network=_true_spec(network, state, narrowed),
        patterns=found,
        narrowed=narrowed,
        pruned_by=record_of(network),
        rounded_to=_rounded_to(state, dtype),
        **plain,
    )
    write_sealed(path, packed(network, stored, found), info.to_json())


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
    template = _narrowed(path, _template(path, info, network), info)
    found = info.patterns if info else {}
    try:
        state = unpacked(stored, found, template)
    except CheckpointError as error:
        raise refusal(f"{path}: {error}") from error
    told = differences(state, state_of(template))
    if told:
        raise refusal(f"{path} does not hold this {type(template).__name__}: {told}")
    broken = not_finite(state)
    if broken:
        raise refusal(f"{path}: {broken} needs finite numbers, got others")
    filled = copy.deepcopy(network) if isinstance(network, nn.Module) else _spec(template).build()
    filled = _narrowed(path, filled, info)
    if info is not None:
        state = {key: _widened(tensor, info.rounded_to) for key, tensor in state.items()}
        retype_(filled, state)
    _check_ties(path, filled, state)
    filled.load_state_dict(state)
    _check_widths(path, filled, info)
    _describe_(filled, info)
    return filled


def read_info(path: str | Path) -> CheckpointInfo:
    """Return what a file of ours says about itself."""
    _, info = _read(_located(path))
    if info is None:
        raise CheckpointError(
            f"{path} was not written by scumble and does not say which network it holds; name it "
            f"(--network, or network in Python)"
        )
    return info


def _located(path: str | Path) -> Path:
    """Return the file of a network of the zoo, or the path as it is."""
    return scumble.zoo.find(str(path)) if str(path) in scumble.zoo.names() else Path(path)


def _plain(name: str, value: object) -> Any:
    """Return what was said about a network, if JSON can hold it exactly."""
    value = dict(value) if isinstance(value, Mapping) else value
    fits = value is None or isinstance(value, str if name in ("data", "licence") else dict)
    try:
        if fits and json.loads(json.dumps(value, allow_nan=False)) == value:
            return value
        reason = "this would come back changed" if fits else f"got a {type(value).__name__}"
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error)
    kind = "text" if name in ("data", "licence") else "a dict that JSON holds, with keys of text"
    raise refusal(f"{name} needs to be {kind}: {reason}")


def _stored(state: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Return what to write of a network's state, in another type if one is given."""
    check_plain(state)
    broken = not_finite(state)
    if broken:
        raise NetworkError(f"a checkpoint needs finite weights, got others in {broken}")
    if dtype is None:
        return dict(state)
    if dtype not in FLOATS:
        known = ", ".join(f"torch.{dtype_name(one)}" for one in FLOATS)
        raise CheckpointError(f"weights are stored as one of {known}, got {dtype!r}")
    stored = {key: t.to(dtype) if t.is_floating_point() else t for key, t in state.items()}
    broken = not_finite(stored)
    if broken:
        raise NetworkError(
            f"{broken} holds weights beyond {torch.finfo(dtype).max:g}, the largest "
            f"{dtype_name(dtype)}; store it in a wider type"
        )
    return stored


def _rounded_to(state: Mapping[str, Tensor], dtype: torch.dtype | None) -> HalfType | None:
    wider = any(t.is_floating_point() and t.dtype.itemsize > 2 for t in state.values())
    return _HALVES.get(dtype) if dtype is not None and wider else None


def _true_spec(
    network: nn.Module, state: Mapping[str, Tensor], narrowed: Mapping[str, list[int]]
) -> NetworkSpec | None:
    """Return the spec of a network that is still what its spec builds; None for any other."""
    spec = spec_of(network)
    if spec is None:
        return None
    with torch.device("meta"):
        built = spec.build()
    try:
        narrow_to_(built, narrowed)
    except NetworkError:
        return None
    same = repr(built) == repr(network) and not differences(state, built.state_dict())
    # What the spec builds has no tied weights; loaded into it, they would come apart.
    return spec if same and not tied(state) else None


def _read(path: Path) -> tuple[Mapping[str, Tensor], CheckpointInfo | None]:
    if path.suffix in ENDINGS:
        return read_torch(path), None
    if path.parent == Path() and not path.suffix and not os.path.exists(path):
        raise _no_such_name(path.name)
    tensors, info = read_sealed(path)
    if info is not None and str(info.get("kind")).startswith(_TRAINING_STATE):
        raise CheckpointError(
            f"{path} is the state of a training run, not a network; the network of that run is "
            f"beside it: network.safetensors or best.safetensors"
        )
    try:
        return tensors, None if info is None else CheckpointInfo.from_json(info)
    except CheckpointError as error:
        raise refusal(f"{path}: {error}") from error


def _no_such_name(name: str) -> CheckpointError:
    """Return the error for a name that is neither a file nor a network of the zoo."""
    known = scumble.zoo.names()
    zoo = f"the zoo ({', '.join(known)})" if known else "the zoo"
    try:
        spec = str(NetworkSpec.parse(name))
    except ScumbleError:
        near = get_close_matches(name.lower(), known, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return refusal(f"there is no file {name}, and no network of that name in {zoo}{hint}")
    from scumble.recipe import recipe_names  # late: loading a network does not wait for pydantic

    recipe = f"{spec}-short"
    train = f"train it: scumble train {recipe}, or " if recipe in recipe_names() else ""
    return refusal(
        f"there are no trained weights of {name} in {zoo}; "
        f"{train}build it untrained: scumble.build('{name}')"
    )


def _template(
    path: Path, info: CheckpointInfo | None, network: nn.Module | str | None
) -> nn.Module:
    """Return the network that the file belongs to, without memory if it is one of ours."""
    if isinstance(network, nn.Module):
        check_plain(state_of(network))
        return network
    if network is None and (info is None or info.network is None):
        whose = "a state dict" if info is None else f"a {info.class_name} that scumble cannot build"
        raise refusal(
            f"{path} holds {whose}; say which network it belongs to "
            f"(--network, or network in Python)"
        )
    with torch.device("meta"):
        if network is not None:
            return build(network)
        assert info is not None
        assert info.network is not None
        try:
            return info.network.build()
        except ScumbleError as error:
            raise refusal(f"{path}: its network cannot be built: {error}") from error


def _narrowed(path: Path, network: nn.Module, info: CheckpointInfo | None) -> nn.Module:
    """Return the network, or a copy as narrow as the file says that its layers are."""
    if info is None or not info.narrowed:
        return network
    narrow = copy.deepcopy(network)
    try:
        narrow_to_(narrow, info.narrowed)
    except NetworkError as error:
        raise refusal(f"{path} holds a narrower network than this: {error}") from error
    return narrow


def _check_widths(path: Path, network: nn.Module, info: CheckpointInfo | None) -> None:
    """Refuse a narrow network of ours whose layers do not fit each other."""
    if info is None or not info.narrowed or info.network is None:
        return
    try:
        trace(network, SMALL)
    except NetworkError as error:
        raise refusal(f"{path}: the widths of its layers do not fit: {error}") from error


def _spec(template: nn.Module) -> NetworkSpec:
    spec = spec_of(template)
    assert spec is not None
    return spec


def _widened(tensor: Tensor, rounded_to: HalfType | None) -> Tensor:
    """Return as float32 what was rounded to make a file smaller."""
    return tensor.float() if _HALVES.get(tensor.dtype, "") == rounded_to else tensor


def _check_ties(path: Path, network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Refuse different values for weights that the network has only once."""
    for first, *others in tied(network.state_dict()):
        for key in others:
            if not torch.equal(state[first], state[key]):
                raise refusal(f"{path}: {first} and {key} are one weight, got two")


def _describe_(network: nn.Module, info: CheckpointInfo | None) -> None:
    """Note on a network what its file says, in place of what was noted before."""
    for name in patterns(network):
        mark(network.get_submodule(name), None)
    for name, pattern in (info.patterns if info else {}).items():
        mark(network.get_submodule(name), pattern)
    record = info.pruned_by if info else None
    if record is not None or record_of(network) is not None:
        network.pruned_by = record  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
