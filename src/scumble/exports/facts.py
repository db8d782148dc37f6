"""What an exported file says about its network."""

import json
from dataclasses import dataclass

from torch import nn

from scumble.errors import ExportError
from scumble.methods.base import Pruning
from scumble.models import NetworkSpec, spec_of
from scumble.nn.surgery import patterns
from scumble.state_dicts import check_plain, not_finite, packed, state_of
from scumble.version import __version__

DENSE, MIXED = "dense", "mixed"


@dataclass(frozen=True)
class Facts:
    """A network in words."""

    network: str  # such as carn-x4 or edsr-x2,features=16; the class of one that is not ours
    pattern: str  # such as 2:32; dense, or mixed
    patterns: dict[str, str]  # of every pruned layer
    licence: str | None = None

    @classmethod
    def of(cls, network: nn.Module, licence: str | None = None) -> "Facts":
        """Describe a network, after checking that it is finished and all that it is marked as."""
        if any(isinstance(module, Pruning) for module in network.modules()):
            raise ExportError(
                "exporting needs a plain network, got one that is still being pruned; "
                "finalize it first"
            )
        state = state_of(network)
        check_plain(state)
        broken = not_finite(state)
        if broken:
            raise ExportError(f"exporting needs finite weights, got others in {broken}")
        found = patterns(network)
        packed(network, state, found)  # refuses weights that have left their patterns
        by_layer = {name: str(pattern) for name, pattern in found.items()}
        return cls(_name(network), _together(by_layer), by_layer, licence)

    def properties(self) -> dict[str, str]:
        """Return all of it as text, for the header of a file."""
        told = {
            "network": self.network,
            "pattern": self.pattern,
            "package": f"scumble {__version__}",
        }
        if self.patterns:
            told["patterns"] = json.dumps(self.patterns)
        if self.licence is not None:
            told["licence"] = self.licence
        return told

    def __str__(self) -> str:
        return f"{self.network} {self.pattern}"


def _name(network: nn.Module) -> str:
    """Return the name by which ``scumble.build`` knows a network, else its class."""
    spec = spec_of(network)
    if spec is None:
        return type(network).__name__
    usual = NetworkSpec.of(str(spec)).arguments
    unusual = {key: value for key, value in spec.arguments.items() if value != usual[key]}
    return ",".join([str(spec), *(f"{key}={value}" for key, value in unusual.items())])


def _together(by_layer: dict[str, str]) -> str:
    """Return one word for the patterns of all layers."""
    kinds = set(by_layer.values())
    if len(kinds) > 1:
        return MIXED
    return kinds.pop() if kinds else DENSE
