"""Batches for training: from threads on the CPU, or from photos that all lie on the GPU."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from scumble.data.ahead import ahead
from scumble.data.crops import CropPlan, Crops

Batch = tuple[Tensor, Tensor]  # degraded and clean, [B, 3, h, w] in 0..1

# Steps whose crops are drawn and sent to the GPU at once.
BLOCK = 512


class Photos(Protocol):
    """Decoded pairs of photos; data.store.PictureStore is one."""

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """Return height and width of every degraded picture."""
        ...

    def __len__(self) -> int: ...

    def pair(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a degraded and a clean picture, uint8."""
        ...

    def crop(
        self, index: int, top: int, left: int, height: int, width: int, scale: int
    ) -> tuple[Tensor, Tensor]:
        """Return the same part of both, in coordinates of the degraded one."""
        ...


@dataclass(frozen=True)
class Share:
    """Which crops make a batch, and which of them belong to this process."""

    plan: CropPlan
    patch: int  # side of a crop of the degraded picture
    scale: int
    batch: int  # crops per step and process
    rank: int = 0
    processes: int = 1

    def crops(self, step: int) -> Crops:
        """Return this process's crops of one step."""
        whole = self.plan.at(step, self.batch * self.processes)
        return whole[self.rank * self.batch : (self.rank + 1) * self.batch]


class Loader(ABC):
    """Gives the batch of any step."""

    def __init__(self, share: Share) -> None:
        self.share = share

    @abstractmethod
    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """Yield the batches of the steps from ``first`` up to ``end``."""


class ThreadedLoader(Loader):
    """Cuts crops in a few threads, a few steps ahead."""

    def __init__(
        self, photos: Photos, share: Share, workers: int = 2, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(share)
        self.photos, self.workers, self.device = photos, workers, device

    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """Yield the batches of the steps from ``first`` up to ``end``."""
        for batch in ahead(self._batch, range(first, end), self.workers):
            degraded, clean = batch.result()
            yield degraded.to(self.device), clean.to(self.device)

    def _batch(self, step: int) -> Batch:
        crops, side = self.share.crops(step), self.share.patch
        places = zip(crops.picture, crops.top, crops.left, strict=True)
        pairs = [
            self.photos.crop(int(i), int(top), int(left), side, side, self.share.scale)
            for i, top, left in places
        ]
        degraded, clean = (torch.stack(parts) for parts in zip(*pairs, strict=True))
        turns = torch.from_numpy(crops.turn)
        return _turned(degraded, turns), _turned(clean, turns)


class ResidentLoader(Loader):
    """Holds all photos on one device as bytes; a crop is a computation of addresses."""

    def __init__(self, photos: Photos, share: Share, device: torch.device | str = "cuda") -> None:
        super().__init__(share)
        scale = share.scale
        self.device = torch.device(device)
        sizes = torch.tensor(photos.sizes, dtype=torch.int64)
        areas = sizes.prod(1)
        starts = areas.cumsum(0) - areas
        self.starts, self.widths = starts.to(self.device), sizes[:, 1].to(self.device)
        pixels = int(areas.sum())
        self.degraded = torch.empty(pixels, 3, dtype=torch.uint8, device=self.device)
        self.clean = torch.empty(pixels * scale**2, 3, dtype=torch.uint8, device=self.device)
        for index, (start, area) in enumerate(zip(starts.tolist(), areas.tolist(), strict=True)):
            degraded, clean = photos.pair(index)
            self.degraded[start : start + area] = degraded.flatten(1).T.to(self.device)
            begin, length = start * scale**2, area * scale**2
            self.clean[begin : begin + length] = clean.flatten(1).T.to(self.device)

    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """Yield the batches of the steps from ``first`` up to ``end``."""
        for begin in range(first, end, BLOCK):
            steps = range(begin, min(begin + BLOCK, end))
            for row in self._places(steps):
                yield (
                    self._gather(self.degraded, row, 1),
                    self._gather(self.clean, row, self.share.scale),
                )

    def _places(self, steps: range) -> Tensor:
        """Return the crops of many steps on the device, ``[steps, 4, batch]``."""
        drawn = (self.share.crops(step) for step in steps)
        rows = [
            torch.stack([torch.from_numpy(part) for part in (c.picture, c.top, c.left, c.turn)])
            for c in drawn
        ]
        return torch.stack(rows).to(self.device, non_blocking=True)

    def _gather(self, pixels: Tensor, places: Tensor, scale: int) -> Tensor:
        """Return one side of a batch, read from where its pixels lie."""
        picture, top, left, turn = (row.view(-1, 1, 1) for row in places)
        side = self.share.patch * scale
        row, column = _turned_grid(turn, side)
        width = self.widths[picture] * scale
        address = self.starts[picture] * scale**2
        address = address + (top * scale + row) * width + left * scale + column
        return pixels[address].permute(0, 3, 1, 2).float() / 255


def _turned_grid(turn: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Return rows and columns to read, ``[B, side, side]``, so that each crop comes turned."""
    line = torch.arange(side, device=turn.device)
    down, across = line.view(1, -1, 1), line.view(1, 1, -1)
    transposed = turn & 4 > 0
    row = torch.where(transposed, across, down)
    column = torch.where(transposed, down, across)
    row = torch.where(turn & 2 > 0, side - 1 - row, row)
    return row, torch.where(turn & 1 > 0, side - 1 - column, column)


def _turned(crops: Tensor, turns: Tensor) -> Tensor:
    """Return square crops, each turned its way, in 0..1."""
    row, column = _turned_grid(turns.view(-1, 1, 1), crops.shape[-1])
    which = torch.arange(len(crops)).view(-1, 1, 1)
    turned = crops.permute(0, 2, 3, 1)[which, row, column]
    return turned.permute(0, 3, 1, 2).float() / 255
