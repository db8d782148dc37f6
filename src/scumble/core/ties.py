"""Things that stand or fall together: the classes of an equivalence that grows."""

from collections.abc import Iterable

# What everything is tied to that has to stay.
FIXED = 0


class Ties:
    """Numbers, of which any two can be tied; ties are transitive.

    >>> ties = Ties()
    >>> a, b, c = ties.new(3)
    >>> ties.tie([a], [c])
    >>> ties.of(a) == ties.of(c) != ties.of(b)
    True
    """

    def __init__(self) -> None:
        self._parents = [FIXED]

    def new(self, count: int) -> tuple[int, ...]:
        """Return fresh numbers, tied to nothing."""
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return tuple(range(first, first + count))

    def of(self, number: int) -> int:
        """Return the least of all numbers that this one is tied to."""
        parents = self._parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    def tie(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Tie each number to the one in its place among the others."""
        for one, other in zip(some, others, strict=True):
            low, high = sorted((self.of(one), self.of(other)))
            self._parents[high] = low

    def fix(self, numbers: Iterable[int]) -> None:
        """Tie numbers to what has to stay."""
        for number in numbers:
            self._parents[self.of(number)] = FIXED
