"""The gates of every sparse layer of a network, in one place: one row per layer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from scumble.core.gates import SCORE_CEILING, gates, priorities


class GateTable(nn.Module, ABC):
    """Says which ranks of each layer are kept.

    While the network that it serves runs, the gates of all layers stand ready in ``rows``, made
    once; a layer that runs on its own makes its gates itself.
    """

    open: Tensor  # bools, [layers, m]: the ranks that are kept; of a learned table, once frozen

    def __init__(self, kept: Sequence[int], m: int) -> None:
        super().__init__()
        self.m = m
        self.rows: tuple[Tensor, ...] | None = None
        self.register_buffer("open", first(kept, m))

    @abstractmethod
    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""

    def row(self, layer: int) -> Tensor:
        """Return the ``m`` gates of one layer."""
        if self.rows is not None:
            return self.rows[layer]
        # Activation checkpointing runs a layer again, on its own, and wants it to save the very
        # tensors that it saved inside the network: what the gates need is none of its business.
        with torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
            return self()[layer]

    def serve(self, network: nn.Module) -> list[RemovableHandle]:
        """Have the gates ready whenever ``network`` runs, until the handles are removed."""
        return [
            network.register_forward_pre_hook(self._make_rows),
            network.register_forward_hook(self._drop_rows, always_call=True),
        ]

    def _make_rows(self, network: nn.Module, inputs: object) -> None:
        self.rows = self().unbind()

    def _drop_rows(self, network: nn.Module, inputs: object, result: object) -> None:
        self.rows = None

    @torch.no_grad()
    def counts(self) -> list[int]:
        """Return how many gates of each layer are open."""
        return [int(count) for count in self().sum(1).tolist()]


def first(kept: Sequence[int], m: int) -> Tensor:
    """Return rows of ``m`` bools of which the first N are true."""
    return torch.arange(m) < torch.tensor(kept).unsqueeze(1)


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


class FixedGates(GateTable):
    """Gates that somebody chose once."""

    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""
        return self.open.to(torch.get_default_dtype())


class LearnedGates(GateTable):
    """Gates opened by trainable scores, until they are frozen."""

    frozen: Tensor  # a bool on the device: a captured CUDA graph sees it change
    decisive: Tensor  # the scores when the gates were frozen

    def __init__(
        self, layers: int, m: int, ceiling: float = SCORE_CEILING, ordered: bool = True
    ) -> None:
        super().__init__([m] * layers, m)
        self.ceiling = ceiling
        self.ordered = ordered
        self.scores = nn.Parameter(torch.ones(layers, m - 1))
        self.register_buffer("frozen", torch.tensor(False))
        self.register_buffer("decisive", torch.ones(layers, m - 1))

    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""
        fixed = self.open.to(self.scores.dtype)
        return torch.where(self.frozen, fixed, gates(self.priorities(), self.ordered))

    def priorities(self) -> Tensor:
        """Return the priority of every rank, ``[layers, m]``."""
        return priorities(self.scores, self.ceiling, self.ordered)

    @torch.no_grad()
    def clamp_(self) -> None:
        """Bring scores back into their range, where they can still move both ways."""
        self.scores.clamp_(0, self.ceiling)

    @torch.no_grad()
    def freeze_(self, rows: Tensor) -> None:
        """Fix the gates: from now on neither scores nor their optimizer's momentum move them."""
        self.open.copy_(rows)
        self.decisive.copy_(self.scores)
        self.frozen.fill_(True)
