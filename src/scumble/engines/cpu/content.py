"""The numbers of a graph, as plans of all sizes need them."""

from collections.abc import Mapping

from torch import Tensor

from scumble.engines.cpu.lists import Entries, entries


class Content:
    """Weights by name; which of them are kept is found out once."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights
        self._kept: dict[str, Entries] = {}

    def kept(self, name: str) -> Entries:
        """Return the weights of a convolution that are not zero."""
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = entries(self.weights[name].numpy())
        return found
