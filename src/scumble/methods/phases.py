"""The two phases of pruning, as torch users know them: prepare, then finalize."""

import copy

from torch import nn

from scumble.errors import BudgetError, NetworkError
from scumble.methods.base import Method, PruneRecord, Pruning
from scumble.nn.surgery import Selector


def sparsify(
    network: nn.Module,
    method: Method,
    size: tuple[int, int] = (180, 320),
    where: Selector | None = None,
    pad_groups: bool = False,
) -> nn.Module:
    """Return a copy of ``network`` that prunes itself while it trains.

    Add ``sparse.pruning.penalty()`` to the loss and call ``sparse.pruning.step()`` after the
    optimizer's step; ``finalize`` returns the plain result.

    Args:
        network: any module that takes RGB pictures ``[B, 3, H, W]``.
        method: how to prune, such as ``SLS(m=32, budget="1/8")``.
        size: height and width of the picture on which the budget is counted.
        where: which convolutions to prune, by name and module; by default all whose input
            channels divide into groups, except the one that paints the picture.
        pad_groups: prune other convolutions too, with a shorter last group.

    >>> import scumble
    >>> net = scumble.build("edsr-x2", blocks=1)
    >>> sparse = scumble.sparsify(net, scumble.OneShot("8:32"))
    >>> str(sparse.pruning.patterns["body.0.conv1"])
    '8:32'
    """
    if hasattr(network, "pruning"):
        raise NetworkError(
            f"{type(network).__name__} already has an attribute 'pruning'; "
            f"finalize it first if it is being pruned, else rename the attribute"
        )
    if not isinstance(method, Method):
        raise NetworkError(
            f"sparsify needs a method such as scumble.SLS(budget='1/8'), got {method!r}"
        )
    if not (isinstance(size, tuple | list) and len(size) == 2 and min(size) >= 1):
        raise NetworkError(f"a size is (height, width), such as (180, 320), got {size!r}")
    try:
        sparse = copy.deepcopy(network)
    except (RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"{type(network).__name__} cannot be copied, so it cannot be pruned: {reason}"
        ) from error
    sparse.pruning = method.attach_(sparse, size, where, pad_groups)
    return sparse


def finalize(sparse: nn.Module) -> nn.Module:
    """Return a plain copy of a sparse network: zeros in place, original keys.

    >>> import scumble
    >>> net = scumble.build("edsr-x2", blocks=1)
    >>> pruned = scumble.finalize(scumble.sparsify(net, scumble.OneShot("8:32")))
    >>> list(pruned.state_dict()) == list(net.state_dict())
    True
    """
    pruning = getattr(sparse, "pruning", None)
    if not isinstance(pruning, Pruning):
        raise NetworkError(
            f"finalize needs a network from scumble.sparsify, got a plain {type(sparse).__name__}"
        )
    if not pruning.reached:
        raise BudgetError(
            f"the budget is not met yet: {pruning.kept:.4f} of the prunable MACs are kept, "
            f"{pruning.target:.4f} may be; train on, or prune with more pressure"
        )
    plain = copy.deepcopy(sparse)
    working = plain.pruning
    assert isinstance(working, Pruning)
    record = working.finish_(plain)
    del plain.pruning
    plain.pruned_by = record  # pyright: ignore[reportArgumentType]
    return plain


def record_of(network: nn.Module) -> PruneRecord | None:
    """Return how a network was pruned; None for one that never was."""
    record = getattr(network, "pruned_by", None)
    return record if isinstance(record, PruneRecord) else None
