"""RFDN: Liu et al., "Residual Feature Distillation Network for Lightweight Image SR", 2020."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scumble.models.upsampler import check_scale


class SpatialAttention(nn.Module):
    """Enhanced spatial attention: weighs every place by what it sees of a wide, coarse view.

    The stride, the pooling and the coarse convolutions make its reach about a hundred pixels, and
    their grid depends on the size of the whole picture.
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(features, width, 1)
        self.skip = nn.Conv2d(width, width, 1)
        self.shrink = nn.Conv2d(width, width, 3, stride=2)
        self.coarse1 = nn.Conv2d(width, width, 3, padding=1)
        self.coarse2 = nn.Conv2d(width, width, 3, padding=1)
        self.coarse3 = nn.Conv2d(width, width, 3, padding=1)
        self.expand = nn.Conv2d(width, features, 1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, each place scaled to between nothing and itself."""
        squeezed = self.squeeze(x)
        pooled = F.max_pool2d(self.shrink(squeezed), kernel_size=7, stride=3)
        coarse = self.relu(self.coarse2(self.relu(self.coarse1(pooled))))
        coarse = self.coarse3(coarse)
        wide = F.interpolate(coarse, x.shape[2:], mode="bilinear", align_corners=False)
        return x * torch.sigmoid(self.expand(wide + self.skip(squeezed)))


class DistillationBlock(nn.Module):
    """Three times: half of the features set aside, the rest refined; then all are fused."""

    def __init__(self, features: int, attention: int) -> None:
        super().__init__()
        half = features // 2
        self.distill = nn.ModuleList(nn.Conv2d(features, half, 1) for _ in range(3))
        self.refine = nn.ModuleList(nn.Conv2d(features, features, 3, padding=1) for _ in range(3))
        self.last = nn.Conv2d(features, half, 3, padding=1)
        self.fuse = nn.Conv2d(4 * half, features, 1)
        self.attention = SpatialAttention(features, attention)
        self.act = nn.LeakyReLU(0.05)

    def forward(self, x: Tensor) -> Tensor:
        """Return the attended fusion of all distilled features."""
        distilled: list[Tensor] = []
        for distill, refine in zip(self.distill, self.refine, strict=True):
            distilled.append(self.act(distill(x)))
            x = self.act(refine(x) + x)
        distilled.append(self.act(self.last(x)))
        return self.attention(self.fuse(torch.cat(distilled, 1)))


class Rfdn(nn.Module):
    """RFDN; the defaults are what the SLS paper pruned: 64 features, 32 in the attention."""

    def __init__(
        self, scale: int = 4, features: int = 64, attention: int = 32, blocks: int = 4
    ) -> None:
        super().__init__()
        check_scale(scale)
        self.head = nn.Conv2d(3, features, 3, padding=1)
        self.blocks = nn.ModuleList(DistillationBlock(features, attention) for _ in range(blocks))
        self.fuse = nn.Sequential(nn.Conv2d(features * blocks, features, 1), nn.LeakyReLU(0.05))
        self.refine = nn.Conv2d(features, features, 3, padding=1)
        self.up = nn.Sequential(
            nn.Conv2d(features, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale)
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture, ``scale`` times as large."""
        head = x = self.head(image)
        outputs: list[Tensor] = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return self.up(self.refine(self.fuse(torch.cat(outputs, 1))) + head)
