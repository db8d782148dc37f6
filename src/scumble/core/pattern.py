"""The N:M pattern: N kept weights in every group of M."""

import re
from dataclasses import dataclass

from scumble.errors import PatternError

# A slot, the place of a kept weight in its group, is stored in one byte.
LARGEST_GROUP = 256

_WRITTEN = re.compile(r"\s*(\d{1,6})\s*:\s*(\d{1,6})\s*")


@dataclass(frozen=True, order=True)
class Pattern:
    """N kept weights in every group of M.

    >>> Pattern.parse("8:32").density
    0.25
    """

    n: int  # weights kept in a group
    m: int  # weights in a group

    def __post_init__(self) -> None:
        check_group_size(self.m)
        if not 1 <= self.n <= self.m:
            raise PatternError(f"a pattern keeps 1 to {self.m} of {self.m} weights, got {self}")

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Read ``"N:M"``."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise PatternError(f"a pattern is written N:M, such as 8:32, got {text!r}")
        return cls(int(written[1]), int(written[2]))

    @property
    def density(self) -> float:
        """Return the share of weights that is kept."""
        return self.n / self.m

    def __str__(self) -> str:
        return f"{self.n}:{self.m}"


def check_group_size(m: int) -> None:
    """Refuse group sizes that no group can have."""
    if not 1 <= m <= LARGEST_GROUP:
        raise PatternError(f"a group has 1 to {LARGEST_GROUP} weights, got {m}")
