"""Networks by name. Each is a plain ``nn.Module`` that knows nothing of sparsity."""

import re
from dataclasses import dataclass, field
from inspect import signature

from torch import nn

from scumble.errors import NetworkError
from scumble.models.carn import Carn
from scumble.models.edsr import Edsr
from scumble.models.rfdn import Rfdn
from scumble.registry import Registry, unknown_name

MODELS: Registry[type[nn.Module]] = Registry("network")
MODELS.register("carn")(Carn)
MODELS.register("edsr")(Edsr)
MODELS.register("rfdn")(Rfdn)

_NAME = re.compile(r"(?P<name>.+?)(-x(?P<scale>\d{1,9}))?")
_ARGUMENT = re.compile(r"\s*(?P<key>\w+)\s*=\s*(?P<value>-?\d{1,9})\s*")

# Far beyond any real network, far below what would exhaust a machine.
_LARGEST_ARGUMENT = 1024


@dataclass(frozen=True)
class NetworkSpec:
    """A network by its name and all of its arguments."""

    name: str
    arguments: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, **arguments: int) -> "NetworkSpec":
        """Return the checked spec of, say, ``"carn-x4"``; arguments fall back to defaults."""
        name = name.lower()
        parts = _NAME.fullmatch(name)
        bare = parts["name"] if parts else name
        known = {key: p.default for key, p in signature(MODELS[bare]).parameters.items()}
        if parts and parts["scale"]:
            scale = int(parts["scale"])
            if arguments.setdefault("scale", scale) != scale:
                raise NetworkError(
                    f"{name} needs scale {scale} or none, got scale={arguments['scale']}"
                )
        for key, value in arguments.items():
            if key not in known:
                raise unknown_name(f"argument of {bare}", key, known)
            if type(value) is not int or not 1 <= value <= _LARGEST_ARGUMENT:
                raise NetworkError(
                    f"{bare}: {key} needs to be 1 to {_LARGEST_ARGUMENT}, got {value!r}"
                )
        return cls(bare, {**known, **arguments})

    @classmethod
    def parse(cls, text: str) -> "NetworkSpec":
        """Return the spec written as, say, ``"edsr-x2,features=16,blocks=1"``."""
        name, *written = text.split(",")
        arguments: dict[str, int] = {}
        for part in written:
            found = _ARGUMENT.fullmatch(part)
            if found is None or found["key"] in arguments:
                raise NetworkError(
                    f"arguments of a network are written once each, with whole numbers, "
                    f"such as edsr-x2,features=16,blocks=1, got {text!r}"
                )
            arguments[found["key"]] = int(found["value"])
        if not name.strip():
            raise NetworkError(f"a network needs a name, such as carn-x4, got {text!r}")
        return cls.of(name.strip(), **arguments)

    @property
    def other_arguments(self) -> dict[str, int]:
        """Return the arguments that the written name does not say."""
        return {key: value for key, value in self.arguments.items() if key != "scale"}

    def build(self) -> nn.Module:
        """Return the network with fresh random weights."""
        network = MODELS[self.name](**self.arguments)
        network.spec = self  # pyright: ignore[reportArgumentType]
        return network

    def __str__(self) -> str:
        return f"{self.name}-x{self.arguments['scale']}"


def build(name: str, **arguments: int) -> nn.Module:
    """Return a network with fresh random weights.

    >>> import scumble
    >>> sum(p.numel() for p in scumble.build("carn-x4").parameters())
    1111875
    """
    return NetworkSpec.of(name, **arguments).build()


def spec_of(network: nn.Module) -> NetworkSpec | None:
    """Return name and arguments of a network of ours; None for any other."""
    spec = getattr(network, "spec", None)
    return spec if isinstance(spec, NetworkSpec) else None
