"""Putting sparse convolutions into a network, and taking them out again."""

from collections.abc import Callable, Iterator, Mapping

from torch import nn

from scumble.core.pattern import Pattern, check_group_size
from scumble.errors import NetworkError, PatternError
from scumble.nn.gate_table import GateTable
from scumble.nn.masked_conv import MaskedConv2d
from scumble.nn.sparse_conv import SparseConv2d

Selector = Callable[[str, nn.Conv2d], bool]

# A convolution with so few outputs paints the picture itself. The paper leaves it dense: it is
# cheap, and every weight of it shows.
PICTURE_CHANNELS = 4


def prunable(m: int, pad_groups: bool = False) -> Selector:
    """Return the paper's choice of layers: input channels in groups of ``m``, not the painter."""

    def where(name: str, conv: nn.Conv2d) -> bool:
        fits = conv.in_channels % m == 0 or (pad_groups and conv.in_channels > PICTURE_CHANNELS)
        return fits and conv.groups == 1 and conv.out_channels > PICTURE_CHANNELS

    return where


def convolutions(network: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    """Yield every plain convolution once, by its first name."""
    for name, module in network.named_modules():
        if type(module) is nn.Conv2d:
            yield name, module


def choose(
    network: nn.Module, m: int, where: Selector | None = None, pad_groups: bool = False
) -> dict[str, nn.Conv2d]:
    """Return the convolutions that ``where`` selects, all of which can be pruned."""
    check_group_size(m)
    custom = where is not None
    where = where or prunable(m, pad_groups)
    chosen = {name: conv for name, conv in convolutions(network) if where(name, conv)}
    for name, conv in chosen.items():
        _check(name, conv, m, pad_groups)
    _refuse_shared_weights(network, chosen)
    if not chosen and custom:
        raise PatternError(
            "where= selected none of the network's convolutions; select at least one"
        )
    if not chosen:
        raise PatternError(
            f"pruning in groups of {m} needs a convolution with input channels divisible by {m} "
            f"and more than {PICTURE_CHANNELS} outputs, found none; choose a smaller m, "
            f"or pad the groups (pad_groups)"
        )
    return chosen


def sparsify_(
    network: nn.Module, chosen: dict[str, nn.Conv2d], table: GateTable, pad_groups: bool = False
) -> dict[str, SparseConv2d]:
    """Replace the chosen convolutions, in place; row i of ``table`` is the i-th one's."""
    sparse = {
        name: SparseConv2d(conv, table, row, pad_groups)
        for row, (name, conv) in enumerate(chosen.items())
    }
    replace_(network, sparse)
    return sparse


def densify_(network: nn.Module) -> None:
    """Replace every masked convolution by a plain one with zeros, which remembers its pattern."""
    plain: dict[str, nn.Module] = {}
    for name, module in network.named_modules():
        if isinstance(module, MaskedConv2d):
            _refuse_hooks("a sparse layer", module)
            plain[name] = module.to_dense()
            mark(plain[name], module.pattern)
    replace_(network, plain)


def mark(conv: nn.Module, pattern: Pattern | None) -> None:
    """Note on a plain convolution which pattern its zeros follow."""
    conv.pattern = pattern  # pyright: ignore[reportArgumentType]


def pattern_of(module: nn.Module) -> Pattern | None:
    """Return the pattern a layer is pruned to; None for one that never was."""
    pattern = getattr(module, "pattern", None)
    return pattern if isinstance(pattern, Pattern) else None


def patterns(network: nn.Module) -> dict[str, Pattern]:
    """Return the pattern of every pruned layer, by name."""
    found = ((name, pattern_of(module)) for name, module in network.named_modules())
    return {name: pattern for name, pattern in found if pattern is not None}


def replace_(network: nn.Module, substitutes: Mapping[str, nn.Module]) -> None:
    """Put substitutes in, in place, under every name that the module of a name goes by."""
    by_module = {network.get_submodule(name): new for name, new in substitutes.items()}
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if module in by_module:
            network.set_submodule(name, by_module[module])


def _check(name: str, conv: nn.Conv2d, m: int, pad_groups: bool) -> None:
    if conv.groups != 1:
        raise PatternError(
            f"layer {name}: pruning needs a convolution of one group, got {conv.groups}"
        )
    if conv.in_channels % m and not pad_groups:
        raise PatternError(
            f"layer {name}: groups of {m} need input channels divisible by {m}, "
            f"got {conv.in_channels}; choose another m, leave the layer out, or pad its groups"
        )
    if not name:
        raise NetworkError("pruning needs a network around its layers, got a bare convolution")
    _refuse_hooks(f"layer {name}", conv)


def _refuse_hooks(name: str, conv: nn.Conv2d) -> None:
    if conv._forward_hooks or conv._forward_pre_hooks or conv._backward_hooks:
        raise NetworkError(f"{name}: pruning would lose its hooks; remove them first")


def _refuse_shared_weights(network: nn.Module, chosen: dict[str, nn.Conv2d]) -> None:
    owners: dict[int, str] = {}
    pruned = {id(conv.weight) for conv in chosen.values()}
    for name, module in network.named_modules():
        for parameter in module.parameters(recurse=False):
            other = owners.setdefault(id(parameter), name)
            if other != name and id(parameter) in pruned:
                raise PatternError(
                    f"layers {other} and {name} share one weight, and pruning needs a weight of "
                    f"its own for each; leave both out (where=)"
                )
