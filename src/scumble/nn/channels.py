"""Which channels of a network belong together, found by running it on shapes alone.

Every channel that a layer makes is a number. A layer that reads it, an addition, a concatenation, a
pixel shuffle say which numbers stand or fall together. What this cannot follow is fixed: numbers
tied to ``core.ties.FIXED`` have to stay.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from scumble.core.ties import FIXED, Ties
from scumble.nn.channel_rules import rule_of
from scumble.nn.shapes import Notes, run_on_shapes
from scumble.nn.tracing import COUNTED_ACTIVATIONS

Channels = tuple[int, ...]


@dataclass(frozen=True)
class Along:
    """Where the channels of a tensor lie, and which they are."""

    dim: int
    channels: Channels


@dataclass(frozen=True)
class Product:
    """A weight at work: every output channel with every input channel, so many times."""

    outputs: Channels
    inputs: Channels | None  # None: each output has inputs of its own, which nobody takes away
    times: int


@dataclass(frozen=True)
class Flow:
    """How channels go through a network."""

    ties: Ties = field(default_factory=Ties)
    held: dict[Tensor, dict[int, Channels]] = field(default_factory=dict)  # of parameters, buffers
    filters: dict[Tensor, int] = field(default_factory=dict)  # weights, and their dim of outputs
    products: list[Product] = field(default_factory=list)  # for counting multiply-accumulates
    values: list[tuple[Channels, int]] = field(default_factory=list)  # biases, activations


def follow_channels(network: nn.Module, size: tuple[int, int]) -> Flow:
    """Return how channels go through ``network`` from an RGB picture of height x width."""
    notes = Follower(network)
    example = next((p for p in network.parameters() if p.is_floating_point()), torch.empty(0))
    run_on_shapes(network, size, example, notes)
    return notes.flow


class Follower(Notes):
    """Writes down where channels go while a network runs."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.flow = Flow()
        self.ties = self.flow.ties
        # Only what a checkpoint holds can be as narrow again when it is loaded.
        self.holders = {*network.state_dict(keep_vars=True).values()}
        self.places = WeakTensorKeyDictionary()
        self.turned = WeakTensorKeyDictionary()  # transposed weights of linear layers

    def begin(self, shadow: nn.Module, picture: Tensor) -> None:
        """Watch the activations that are counted; the picture's own channels have to stay."""
        self.places[picture] = Along(1, (FIXED,) * picture.shape[1])
        for module in shadow.modules():
            if isinstance(module, COUNTED_ACTIVATIONS):
                module.register_forward_hook(self._note_activation)

    def end(self, result: object) -> None:
        """Fix the channels of what the network returns."""
        self.fix(result)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        rule_of(func)(self, [*args, *(kwargs or {}).values()], result)
        return result

    def held(self, tensor: Tensor, dim: int) -> Channels:
        """Return the channels along a dimension of a parameter or buffer."""
        places = self.flow.held.setdefault(tensor, {})
        if dim not in places:
            places[dim] = self.ties.new(tensor.shape[dim])
        return places[dim]

    def along(self, tensor: object) -> Along | None:
        """Return where the channels of a tensor lie; None if there are none, or nobody knows."""
        if isinstance(tensor, Tensor) and tensor in self.holders:
            wide = [dim for dim, length in enumerate(tensor.shape) if length > 1]
            return Along(wide[0], self.held(tensor, wide[0])) if len(wide) == 1 else None
        return self.places.get(tensor) if isinstance(tensor, Tensor) else None

    def put(self, tensor: Tensor, dim: int, channels: Channels) -> None:
        """Note where the channels of a tensor lie."""
        assert tensor.shape[dim] == len(channels)
        self.places[tensor] = Along(dim, channels)

    def fix(self, *values: object) -> None:
        """Have the channels of all tensors among these values stay."""
        for tensor in tree_leaves(values):
            if not isinstance(tensor, Tensor):
                continue
            tensor = self.turned.get(tensor) if tensor in self.turned else tensor
            assert isinstance(tensor, Tensor)
            along = self.along(tensor)
            if along is not None:
                self.ties.fix(along.channels)
            elif tensor in self.holders:
                for dim in range(tensor.dim()):
                    self.ties.fix(self.held(tensor, dim))

    def read(self, tensor: Tensor, dim: int, channels: Channels) -> None:
        """Tie the channels of a tensor to those that a weight reads."""
        along = self.along(tensor)
        if along is not None and along.dim == dim:
            self.ties.tie(along.channels, channels)
        else:
            self.fix(tensor)
            self.ties.fix(channels)

    def multiply(
        self, weight: Tensor, outputs: int, inputs: int | None, positions: int
    ) -> Channels:
        """Note a weight at work, by its dimensions of outputs and inputs; return what it makes."""
        made = self.held(weight, outputs)
        read = None if inputs is None else self.held(weight, inputs)
        sizes = [length for dim, length in enumerate(weight.shape) if dim not in (outputs, inputs)]
        self.flow.filters[weight] = outputs
        self.flow.products.append(Product(made, read, prod(sizes) * positions))
        return made

    def add_bias(self, bias: Tensor | None, made: Channels, positions: int) -> None:
        """Tie a bias to the channels that it is added to."""
        if bias is None:
            return
        self.read(bias, 0, made)
        self.flow.values.append((made, positions))

    def _note_activation(self, module: nn.Module, _: object, result: object) -> None:
        along = self.along(result)
        if along is not None:
            assert isinstance(result, Tensor)
            self.flow.values.append((along.channels, result.numel() // len(along.channels)))
