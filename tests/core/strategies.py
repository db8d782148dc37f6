"""Random weights and patterns."""

import torch
from hypothesis import strategies as st

from scumble.core.pattern import Pattern

group_sizes = st.sampled_from([1, 2, 3, 4, 8, 16, 32])


@st.composite
def patterns(draw) -> Pattern:
    m = draw(group_sizes)
    return Pattern(draw(st.integers(1, m)), m)


@st.composite
def weights(draw, m: int, whole_groups: bool = True) -> torch.Tensor:
    """A weight with ties, zeros and negative zeros, as trained and quantised weights have them."""
    out, kernel = draw(st.integers(1, 4)), draw(st.sampled_from([(1, 1), (3, 3), (2, 5)]))
    channels = m * draw(st.integers(1, 3)) + (0 if whole_groups else draw(st.integers(0, m - 1)))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(out, channels, *kernel, generator=generator)
    return (weight * 2).round() / 2 if draw(st.booleans()) else weight
