"""What a checkpoint says about itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import NoneType
from typing import Any, Literal, TypeGuard

from scumble.core.pattern import Pattern
from scumble.errors import CheckpointError, ScumbleError
from scumble.methods.base import PruneRecord
from scumble.models import MODELS, NetworkSpec
from scumble.registry import unknown_name
from scumble.version import __version__

FORMAT = 1

HalfType = Literal["float16", "bfloat16"]


@dataclass(frozen=True)
class CheckpointInfo:
    """Everything in a checkpoint that is not a tensor."""

    class_name: str  # of the network's class
    network: NetworkSpec | None = None  # None for a network that scumble cannot build
    patterns: Mapping[str, Pattern] = field(default_factory=dict)  # of every pruned layer
    narrowed: Mapping[str, list[int]] = field(default_factory=dict)  # shapes that lost channels
    pruned_by: PruneRecord | None = None
    recipe: Mapping[str, Any] | None = None  # resolved, of the run that made it
    data: str | None = None  # what it was trained on
    licence: str | None = None
    results: Mapping[str, Any] | None = None  # what it scored, by protocol and data set
    package: str = __version__  # the version of scumble that wrote it
    rounded_to: HalfType | None = None  # for a smaller file; such weights load as float32

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        patterns = {name: str(pattern) for name, pattern in self.patterns.items()}
        return {"format": FORMAT, **asdict(self), "patterns": patterns}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "CheckpointInfo":
        """Return the info in plain data, after checking it."""
        written = given.get("format")
        if written != FORMAT:
            raise CheckpointError(
                f"format {written!r} is not one that scumble {__version__} reads ({FORMAT}); "
                f"use the version that wrote it"
            )
        try:
            values = {key: value for key, value in given.items() if key != "format"}
            _check_types(values, _FIELDS, optional={"rounded_to", "narrowed"})
            if values.get("rounded_to") not in (None, "float16", "bfloat16"):
                raise CheckpointError(f"nothing is rounded to {values['rounded_to']!r}")
            values["patterns"] = _patterns(values["patterns"])
            values["narrowed"] = _shapes(values.get("narrowed", {}))
            values["network"] = _network(values["network"])
            values["pruned_by"] = _record(values["pruned_by"])
            return cls(**values)
        except ScumbleError as error:
            raise CheckpointError(f"its description makes no sense: {error}") from error


_FIELDS: dict[str, tuple[type, ...]] = {
    "class_name": (str,),
    "network": (dict, NoneType),
    "patterns": (dict,),
    "narrowed": (dict,),
    "pruned_by": (dict, NoneType),
    "recipe": (dict, NoneType),
    "data": (str, NoneType),
    "licence": (str, NoneType),
    "results": (dict, NoneType),
    "package": (str,),
    "rounded_to": (str, NoneType),
}
_NETWORK_FIELDS: dict[str, tuple[type, ...]] = {"name": (str,), "arguments": (dict,)}
_RECORD_FIELDS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "settings": (dict,),
    "scores": (dict,),
}


def _check_types(
    values: Mapping[str, Any],
    fields: Mapping[str, tuple[type, ...]],
    optional: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Refuse keys that are missing, unknown or of another type."""
    for key in sorted(fields.keys() - values.keys() - optional):
        raise CheckpointError(f"{key!r} is missing")
    for key, value in values.items():
        if key not in fields:
            raise CheckpointError(f"{key!r} is not known")
        if not isinstance(value, fields[key]):
            needed = " or ".join(kind.__name__ for kind in fields[key])
            raise CheckpointError(f"{key!r} needs to be {needed}, got {type(value).__name__}")


def _patterns(written: dict[str, Any]) -> dict[str, Pattern]:
    for name, text in written.items():
        if not isinstance(text, str):
            raise CheckpointError(f"the pattern of {name} needs to be str, got {text!r}")
    return {name: Pattern.parse(text) for name, text in written.items()}


def _shapes(written: dict[str, Any]) -> dict[str, list[int]]:
    for key, shape in written.items():
        whole = isinstance(shape, list) and all(type(length) is int for length in shape)
        if not whole or min(shape, default=0) < 1:
            raise CheckpointError(f"the shape of {key} needs to be whole numbers, got {shape!r}")
    return written


def _network(written: dict[str, Any] | None) -> NetworkSpec | None:
    if written is None:
        return None
    _check_types(written, _NETWORK_FIELDS)
    for key in written["arguments"].keys() & {"cls", "name"}:
        raise CheckpointError(f"no network has an argument {key!r}")
    # Refused here: a name with a scale in it, which we never write, could contradict the arguments.
    if written["name"] not in MODELS:
        raise unknown_name("network", written["name"], MODELS)
    return NetworkSpec.of(written["name"], **written["arguments"])


def _record(written: dict[str, Any] | None) -> PruneRecord | None:
    if written is None:
        return None
    _check_types(written, _RECORD_FIELDS)
    for key, value in written["settings"].items():
        if not isinstance(value, str | int | float | bool | None):
            raise CheckpointError(f"setting {key!r} needs to be plain, got {type(value).__name__}")
    for name, scores in written["scores"].items():
        if not _are_numbers(scores):
            raise CheckpointError(f"the scores of {name} need to be a list of numbers")
    return PruneRecord(**written)


def _are_numbers(scores: object) -> TypeGuard[list[float]]:
    return isinstance(scores, list) and all(type(score) in (int, float) for score in scores)
