"""EDSR-baseline: Lim et al., "Enhanced Deep Residual Networks for Single Image SR", 2017."""

from torch import Tensor, nn

from scumble.models.mean_shift import MeanShift
from scumble.models.upsampler import upsampler


class ResidualBlock(nn.Module):
    """Two convolutions around an activation, added to their input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(features, features, 3, padding=1)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(features, features, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input plus its residual."""
        return x + self.conv2(self.relu(self.conv1(x)))


class Edsr(nn.Module):
    """EDSR; the defaults are EDSR-baseline."""

    def __init__(self, scale: int = 4, features: int = 64, blocks: int = 16) -> None:
        super().__init__()
        self.subtract_mean = MeanShift(-1)
        self.head = nn.Conv2d(3, features, 3, padding=1)
        self.body = nn.Sequential(
            *(ResidualBlock(features) for _ in range(blocks)),
            nn.Conv2d(features, features, 3, padding=1),
        )
        self.up = upsampler(features, scale)
        self.tail = nn.Conv2d(features, 3, 3, padding=1)
        self.add_mean = MeanShift(+1)

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture, ``scale`` times as large."""
        head = self.head(self.subtract_mean(image))
        return self.add_mean(self.tail(self.up(head + self.body(head))))
