"""What a network costs, found by running it on shapes alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from scumble.core.cost import LayerCost, NetworkCost
from scumble.core.pattern import Pattern
from scumble.nn.gate_table import GateTable
from scumble.nn.shapes import Notes, run_on_shapes
from scumble.nn.surgery import patterns

aten = torch.ops.aten

# What the paper's counter adds up besides convolutions: these, where they are modules. It cannot
# see a functional call, such as the activation behind each residual sum of CARN.
COUNTED_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU)

# The parameters that a tensor is computed from; None for one that depends on the picture.
Sources = frozenset[nn.Parameter] | None


def trace(network: nn.Module, size: tuple[int, int]) -> NetworkCost:
    """Return the cost of ``network`` on one RGB picture of height x width; nothing is computed."""
    scores = {id(parameter) for parameter in _scores(network)}
    counted = [p for p in network.parameters() if id(p) not in scores]
    record = _Record(counted, patterns(network))
    example = next((p for p in counted if p.is_floating_point()), torch.empty(0))
    run_on_shapes(network, size, example, record)
    layers = tuple(record.layers.values())
    total = sum(parameter.numel() for parameter in counted)
    in_layers = sum(layer.dense_parameters for layer in layers)
    return NetworkCost(layers, record.activations, total - in_layers, frozenset(record.ran))


def _scores(network: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters that only serve the search for patterns."""
    for module in network.modules():
        if isinstance(module, GateTable):
            yield from module.parameters()


def _follow(network: nn.Module, record: "_Record") -> None:
    """Keep ``record`` informed of the module that runs and of what activations put out."""

    def enter(name: str, module: nn.Module) -> Callable[..., None]:
        def note(*_: object) -> None:
            record.ran.add(name)
            record.inside.append((name, module))

        return note

    def leave(module: nn.Module, _: object, result: object) -> None:
        record.inside.pop()
        if isinstance(module, COUNTED_ACTIVATIONS) and isinstance(result, Tensor):
            record.activations += result.numel()

    for name, module in network.named_modules():
        # First of all, so that what other hooks compute happens inside of the module, too.
        module.register_forward_pre_hook(enter(name, module), prepend=True)
        module.register_forward_hook(leave)
        for parameter in module.parameters(recurse=False):
            record.homes.setdefault(parameter, name)


class _Record(Notes):
    """Writes down every product of a weight while a network runs."""

    def __init__(self, counted: list[nn.Parameter], patterns: dict[str, Pattern]) -> None:
        super().__init__()
        self.unclaimed = {parameter: parameter.numel() for parameter in counted}
        self.patterns = patterns
        self.homes: dict[nn.Parameter, str] = {}  # the module that holds a parameter
        self.inside: list[tuple[str, nn.Module]] = []
        self.ran: set[str] = set()
        self.layers: dict[tuple[object, ...], LayerCost] = {}
        self.activations = 0
        self.sources = WeakTensorKeyDictionary()
        self.open = WeakTensorKeyDictionary()  # products to which a bias may still be added

    def begin(self, shadow: nn.Module, picture: Tensor) -> None:
        """Watch the modules of the network; what comes of the picture depends on it."""
        _follow(shadow, self)
        self.sources[picture] = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        match func.overloadpacket:
            case aten.convolution:
                self._convolution(args[0], args[1], args[2], bool(args[6]), result)
            case aten.mm | aten.bmm:
                self._product(None, args[0], args[1], result)
            case aten.addmm | aten.baddbmm:
                self._product(args[0], args[1], args[2], result)
            case aten.view | aten._unsafe_view if args[0] in self.open:
                self.open[result] = self.open[args[0]]
            case aten.add | aten.add_ if isinstance(args[0], Tensor) and args[0] in self.open:
                self._late_bias(self.open.pop(args[0]), args[1], result)
            case _:
                pass
        self._remember(result, self._sources(args, kwargs))
        return result

    def _sources(self, *values: object) -> Sources:
        """Return the parameters that these values were computed from."""
        found: frozenset[nn.Parameter] = frozenset()
        for tensor in tree_leaves(values):
            if isinstance(tensor, nn.Parameter):
                found |= {tensor}
            elif isinstance(tensor, Tensor):
                more = self.sources.get(tensor, frozenset())
                if more is None:
                    return None
                found |= more
        return found

    def _remember(self, result: object, sources: Sources) -> None:
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.sources[tensor] = sources

    def _convolution(
        self, image: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, result: Tensor
    ) -> None:
        sources = self._sources(weight)
        kind = "conv_transpose" if transposed else "dynamic_conv" if sources is None else "conv"
        grid = image if transposed else result
        key = self._add(kind, tuple(weight.shape), grid.shape[0] * prod(grid.shape[2:]), sources)
        if bias is not None:
            self._add_bias(key, bias, result)

    def _product(self, bias: Tensor | None, left: Tensor, right: Tensor, result: Tensor) -> None:
        shape, positions = (right.shape[-1], right.shape[-2]), prod(left.shape[:-1])
        sources = self._sources(right)
        if sources is None and self._sources(left) is not None:
            shape, positions = tuple(left.shape[-2:]), right.numel() // right.shape[-2]
            sources = self._sources(left)
        key = self._add("matmul" if sources is None else "linear", shape, positions, sources)
        if sources is not None and bias is not None:
            self._add_bias(key, bias, result)
        elif sources is not None:
            self.open[result] = key

    def _late_bias(self, key: tuple[object, ...], bias: object, result: Tensor) -> None:
        """Count a bias that a linear layer adds by itself, as torch does for some layouts."""
        if not isinstance(bias, Tensor) or self._sources(bias) is None:
            return
        if bias.shape == result.shape[-1:]:
            self._add_bias(key, bias, result)

    def _add(
        self, kind: str, shape: tuple[int, ...], positions: int, sources: Sources
    ) -> tuple[object, ...]:
        """Count a weight at more positions; return the key of its layer."""
        name = self._name(sources)
        key = name, kind, shape, sources
        layer = self.layers.get(key)
        if layer is None:
            owns = self._claim(prod(shape), sources) > 0
            pattern = self.patterns.get(name) if kind == "conv" else None
            layer = LayerCost(name, kind, shape, 0, pattern=pattern, owns_weight=owns)
        self.layers[key] = replace(layer, positions=layer.positions + positions)
        return key

    def _add_bias(self, key: tuple[object, ...], bias: Tensor, result: Tensor) -> None:
        layer = self.layers[key]
        self.layers[key] = replace(
            layer,
            bias_additions=layer.bias_additions + result.numel(),
            biases=layer.biases + self._claim(bias.numel(), self._sources(bias)),
        )

    def _name(self, sources: Sources) -> str:
        """Return the layer's name: the module that runs, or that a borrowed weight belongs to."""
        name, module = self.inside[-1]
        if isinstance(module, _ConvNd | nn.Linear):
            return name
        homes = [home for parameter, home in self.homes.items() if parameter in (sources or ())]
        return name if name in homes or not homes else homes[0]

    def _claim(self, count: int, sources: Sources) -> int:
        """Return ``count`` if these sources have so many parameters that no layer has counted."""
        fresh = [parameter for parameter in sources or () if parameter in self.unclaimed]
        if count > sum(self.unclaimed[parameter] for parameter in fresh):
            return 0
        for parameter in fresh:
            del self.unclaimed[parameter]
        return count
