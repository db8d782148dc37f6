"""Pictures that the metrics are tried on."""

import torch
from hypothesis import strategies as st
from torch import Tensor


def noise(height: int, width: int, seed: int = 0) -> Tensor:
    """An 8-bit RGB picture of no meaning."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(256, (3, height, width), generator=chance, dtype=torch.uint8)


def scene(height: int, width: int) -> Tensor:
    """A smooth 8-bit RGB picture with an edge, other in every channel."""
    rows = torch.linspace(0, 1, height).view(1, height, 1)
    columns = torch.linspace(0, 1, width).view(1, 1, width)
    slopes = torch.tensor([0.9, 0.3, 0.6]).view(3, 1, 1)
    waves = (rows * slopes + columns * (1 - slopes)) / 2 + (columns > 0.6) * slopes / 2
    return waves.mul(255).to(torch.uint8)


@st.composite
def pairs(draw, least: int = 12, most: int = 24) -> tuple[Tensor, Tensor]:
    """Two 8-bit pictures of one size."""
    height, width = draw(st.integers(least, most)), draw(st.integers(least, most))
    seeds = st.integers(0, 2**31)
    return noise(height, width, draw(seeds)), noise(height, width, draw(seeds))
