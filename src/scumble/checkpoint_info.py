"""What a checkpoint says about itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from scumble.core.pattern import Pattern
from scumble.errors import CheckpointError, ScumbleError
from scumble.methods.base import PruneRecord
from scumble.models import NetworkSpec
from scumble.version import __version__

FORMAT = 1


@dataclass(frozen=True)
class CheckpointInfo:
    """Everything in a checkpoint that is not a tensor."""

    class_name: str  # of the network's class
    network: NetworkSpec | None = None  # None for a network that is not ours
    patterns: Mapping[str, Pattern] = field(default_factory=dict)  # of every pruned layer
    pruned_by: PruneRecord | None = None
    recipe: Mapping[str, Any] | None = None  # resolved, of the run that made it
    data: str | None = None  # what it was trained on
    licence: str | None = None
    results: Mapping[str, Any] | None = None  # what it scored, by protocol and data set
    package: str = __version__  # the version of scumble that wrote it

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
            values["patterns"] = {k: Pattern.parse(p) for k, p in values["patterns"].items()}
            if values["network"] is not None:
                spec = values["network"]
                values["network"] = NetworkSpec.of(spec["name"], **spec["arguments"])
            if values["pruned_by"] is not None:
                values["pruned_by"] = PruneRecord(**values["pruned_by"])
            return cls(**values)
        except (AttributeError, KeyError, TypeError, ScumbleError) as error:
            raise CheckpointError(f"its description makes no sense: {error}") from error
