"""CARN: Ahn et al., "Fast, Accurate, and Lightweight SR with Cascading Residual Network", 2018."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scumble.models.mean_shift import MeanShift
from scumble.models.upsampler import upsampler


class ResidualBlock(nn.Module):
    """Two convolutions, added to their input, then an activation."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(features, features, 3, padding=1)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(features, features, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activated sum of the input and its residual."""
        return F.relu(x + self.conv2(self.relu(self.conv1(x))))


class Fusion(nn.Module):
    """Squeezes everything gathered so far to one set of features."""

    def __init__(self, gathered: int, features: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(gathered, features, 1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return the fused features."""
        return self.relu(self.conv(x))


class Cascade(nn.Module):
    """Three stages; after each one, its output joins all earlier ones and is fused."""

    def __init__(self, stages: list[nn.Module], features: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.fusions = nn.ModuleList(
            Fusion(features * (index + 2), features) for index in range(len(stages))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the last fused features."""
        gathered = [x]
        for stage, fusion in zip(self.stages, self.fusions, strict=True):
            gathered.append(stage(x))
            x = fusion(torch.cat(gathered, 1))
        return x


class Carn(nn.Module):
    """CARN for one scale: three cascading blocks of three residual blocks, themselves cascaded."""

    def __init__(self, scale: int = 4, features: int = 64) -> None:
        super().__init__()
        self.subtract_mean = MeanShift(-1)
        self.head = nn.Conv2d(3, features, 3, padding=1)
        self.body = Cascade(
            [Cascade([ResidualBlock(features) for _ in range(3)], features) for _ in range(3)],
            features,
        )
        self.up = upsampler(features, scale, activation=nn.ReLU)
        self.tail = nn.Conv2d(features, 3, 3, padding=1)
        self.add_mean = MeanShift(+1)

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture, ``scale`` times as large."""
        head = self.head(self.subtract_mean(image))
        return self.add_mean(self.tail(self.up(self.body(head))))
