"""Small pictures to test with."""

from pathlib import Path

import torch
from hypothesis import strategies as st

from scumble.data.images import Picture, write_picture


def noise(channels: int, height: int, width: int, depth: int = 8, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 2**depth, (channels, height, width), generator=generator)
    return pixels.to(torch.uint8 if depth == 8 else torch.int32)


def save_noise(path: Path, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """Write an RGB picture, and return its pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = noise(3, height, width, seed=seed)
    write_picture(Picture(pixels), path)
    return pixels


@st.composite
def pictures(draw, depths=(8, 16), channels=(1, 3), with_alpha=(False, True)) -> Picture:
    depth, colours = draw(st.sampled_from(depths)), draw(st.sampled_from(channels))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    alpha = int(draw(st.sampled_from(with_alpha)))
    samples = noise(colours + alpha, height, width, depth, draw(st.integers(0, 2**32)))
    return Picture(samples[:colours], depth, samples[colours:] if alpha else None)


def assert_same(one: Picture, other: Picture) -> None:
    assert one.depth == other.depth
    assert torch.equal(one.pixels, other.pixels)
    assert (one.alpha is None) == (other.alpha is None)
    if one.alpha is not None:
        assert torch.equal(one.alpha, other.alpha)
