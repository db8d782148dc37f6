"""The gates of every sparse layer of a network, in one place: one row per layer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from scumble.core.gates import SCORE_CEILING, gates, priorities


class GateTable(nn.Module, ABC):
    """Says which ranks of each layer are kept."""

    kept: Tensor  # N of each layer; of a learned table, once frozen
    places: Tensor  # 0 .. m-1

    def __init__(self, kept: Sequence[int], m: int) -> None:
        super().__init__()
        self.m = m
        self.register_buffer("kept", torch.tensor(kept, dtype=torch.int64))
        self.register_buffer("places", torch.arange(m), persistent=False)

    @abstractmethod
    def row(self, layer: int) -> Tensor:
        """Return the ``m`` gates of one layer."""

    @abstractmethod
    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""

    @torch.no_grad()
    def counts(self) -> list[int]:
        """Return how many gates of each layer are open."""
        return [int(count) for count in self().sum(1).tolist()]


class FixedGates(GateTable):
    """Gates that somebody chose once."""

    def row(self, layer: int) -> Tensor:
        """Return the ``m`` gates of one layer."""
        return self._open(self.kept[layer])

    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""
        return self._open(self.kept.unsqueeze(1))

    def _open(self, kept: Tensor) -> Tensor:
        return (self.places < kept).to(torch.get_default_dtype())


class LearnedGates(GateTable):
    """Gates opened by trainable scores, until they are frozen."""

    frozen: Tensor  # a bool on the device: a captured CUDA graph sees it change

    def __init__(self, layers: int, m: int, ceiling: float = SCORE_CEILING) -> None:
        super().__init__([m] * layers, m)
        self.ceiling = ceiling
        self.scores = nn.Parameter(torch.ones(layers, m - 1))
        self.register_buffer("frozen", torch.tensor(False))

    def row(self, layer: int) -> Tensor:
        """Return the ``m`` gates of one layer."""
        return self._open(self.scores[layer], self.kept[layer])

    def forward(self) -> Tensor:
        """Return the gates of all layers, ``[layers, m]``."""
        return self._open(self.scores, self.kept.unsqueeze(1))

    def priorities(self) -> Tensor:
        """Return the priority of every rank, ``[layers, m]``."""
        return priorities(self.scores, self.ceiling)

    @torch.no_grad()
    def clamp_(self) -> None:
        """Bring scores back into their range, where they can still move both ways."""
        self.scores.clamp_(0, self.ceiling)

    @torch.no_grad()
    def freeze_(self, kept: Sequence[int]) -> None:
        """Fix the gates: from now on neither scores nor their optimizer's momentum move them."""
        self.kept.copy_(torch.tensor(kept))
        self.frozen.fill_(True)

    def _open(self, scores: Tensor, kept: Tensor) -> Tensor:
        learned = gates(priorities(scores, self.ceiling))
        return torch.where(self.frozen, (self.places < kept).to(scores.dtype), learned)
