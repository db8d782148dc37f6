"""Networks that others trained, as plain modules that take and give pictures in 0..1."""

import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scumble


class InLevels(nn.Module):
    """Runs a network of 0..255 on pictures of 0..1."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return self.network(image * 255) / 255


# Our names for the layers of RFDN_AIM.pth.
RFDN_NAMES = {
    r"fea_conv": "head",
    r"B(\d)\.c(\d)_d": lambda m: f"blocks.{int(m[1]) - 1}.distill.{int(m[2]) - 1}",
    r"B(\d)\.c(\d)_r": lambda m: f"blocks.{int(m[1]) - 1}.refine.{int(m[2]) - 1}",
    r"B(\d)\.c4": lambda m: f"blocks.{int(m[1]) - 1}.last",
    r"B(\d)\.c5": lambda m: f"blocks.{int(m[1]) - 1}.fuse",
    r"B(\d)\.esa\.(\w+)": lambda m: f"blocks.{int(m[1]) - 1}.attention.{RFDN_ATTENTION[m[2]]}",
    r"c\.0": "fuse.0",
    r"LR_conv": "refine",
    r"upsampler\.0": "up.0",
}
RFDN_ATTENTION = {
    "conv1": "squeeze",
    "conv_f": "skip",
    "conv2": "shrink",
    "conv_max": "coarse1",
    "conv3": "coarse2",
    "conv3_": "coarse3",
    "conv4": "expand",
}


def rfdn_name(theirs: str) -> str:
    """Our name of one of RFDN's parameters."""
    layer, _, parameter = theirs.rpartition(".")
    for pattern, ours in RFDN_NAMES.items():
        if re.fullmatch(pattern, layer):
            return f"{re.sub(pattern, ours, layer)}.{parameter}"
    raise KeyError(theirs)


def load_rfdn_aim(path: Path) -> nn.Module:
    """RFDN x4 of the AIM 2020 challenge, in our own module."""
    weights = torch.load(path, map_location="cpu", weights_only=True)
    network = scumble.build("rfdn-x4", features=50, attention=12)
    network.load_state_dict({rfdn_name(key): value for key, value in weights.items()})
    return InLevels(network).eval()


def load_rlfn(path: Path) -> nn.Module:
    """RLFN x4: Kong et al., "Residual Local Feature Network for Efficient SR", 2022."""
    network = Rlfn()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return InLevels(network).eval()


class Rlfn(nn.Module):
    """Its layers carry the names of the published weights."""

    def __init__(self, scale: int = 4, features: int = 52, attention: int = 16) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, features, 3, padding=1)
        for number in range(1, 7):
            self.add_module(f"block_{number}", ResidualLocalBlock(features, attention))
        self.conv_2 = nn.Conv2d(features, features, 3, padding=1)
        self.upsampler = nn.Sequential(
            nn.Conv2d(features, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale)
        )

    def forward(self, image: Tensor) -> Tensor:
        head = x = self.conv_1(image)
        for number in range(1, 7):
            x = self.get_submodule(f"block_{number}")(x)
        return self.upsampler(self.conv_2(x) + head)


class ResidualLocalBlock(nn.Module):
    """Three activated convolutions added to their input, then attention."""

    def __init__(self, features: int, attention: int) -> None:
        super().__init__()
        self.c1_r = nn.Conv2d(features, features, 3, padding=1)
        self.c2_r = nn.Conv2d(features, features, 3, padding=1)
        self.c3_r = nn.Conv2d(features, features, 3, padding=1)
        self.c5 = nn.Conv2d(features, features, 1)
        self.esa = OneStepAttention(features, attention)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for conv in (self.c1_r, self.c2_r, self.c3_r):
            y = F.leaky_relu(conv(y), 0.05)
        return self.esa(self.c5(x + y))


class OneStepAttention(nn.Module):
    """RFDN's spatial attention with one coarse convolution instead of three."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(features, width, 1)
        self.conv_f = nn.Conv2d(width, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2)
        self.conv3 = nn.Conv2d(width, width, 3, padding=1)
        self.conv4 = nn.Conv2d(width, features, 1)

    def forward(self, x: Tensor) -> Tensor:
        squeezed = self.conv1(x)
        coarse = self.conv3(F.max_pool2d(self.conv2(squeezed), kernel_size=7, stride=3))
        wide = F.interpolate(coarse, x.shape[2:], mode="bilinear", align_corners=False)
        return x * torch.sigmoid(self.conv4(wide + self.conv_f(squeezed)))
